"""Asks the API server for Events about objects that make no progress and do not say why.

Events are not watched: there are many, and nothing is decided by them. Those about one object are read once it has been
silent for a few seconds, and again now and then for as long as it stays so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from components.desired import JsonObject
from reconciler.controller.obstacles import TELLING, Notice, Notices
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import Forbidden, KubernetesError
from reconciler.kernel.resources import ObjectKey, Resource

EVENTS: Final = Resource("", "v1", "events", "Event")

PATIENCE_SECONDS: Final = 3.0
"""How long an object may say nothing before Events about it are read; most get on within that."""
REREAD_SECONDS: Final = 30.0

_MOST_OBJECTS: Final = 4
"""Of one model in one pass: replicas that wait do so for the same reason."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Silence:
    """An object that says nothing: when to read about it, and what was found."""

    due: float
    notice: Notice | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """What is known now, and in how many seconds there is more to read."""

    notices: Notices = field(default_factory=dict)
    look_again: float | None = None


class NoticeReader:
    """Remembers, for each model, which of its objects are silent and what Events said about them.

    Args:
        client: Connection to the API server; it needs list on events.
        clock: Monotonic seconds.
    """

    def __init__(self, client: KubernetesClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._silent: dict[ObjectKey, dict[str, _Silence]] = {}
        self._told_forbidden = False

    async def read(self, key: ObjectKey, silent: Iterable[JsonObject]) -> Read:
        """Return what Events say about the silent objects of a model, reading those that are due."""
        objects = {str(obj["metadata"]["uid"]): obj for obj in islice(silent, _MOST_OBJECTS)}
        known = self._silent.pop(key, {})
        if not objects:
            return Read()
        now = self._clock()
        silences = {uid: known.get(uid) or _Silence(now + PATIENCE_SECONDS) for uid in objects}
        self._silent[key] = silences
        for uid, silence in silences.items():
            if silence.due <= now:
                silence.notice = await self._last(objects[uid]) or silence.notice
                silence.due = now + REREAD_SECONDS
        notices = {uid: silence.notice for uid, silence in silences.items() if silence.notice is not None}
        return Read(notices, min(silence.due for silence in silences.values()) - now)

    def forget(self, key: ObjectKey) -> None:
        """Drop what is remembered of a model that is gone."""
        self._silent.pop(key, None)

    async def _last(self, obj: JsonObject) -> Notice | None:
        """Return the newest telling Event about an object, an empty notice without one; None when none can be read."""
        metadata = obj["metadata"]
        try:
            events = await self._about(metadata["namespace"], metadata["uid"])
        except Forbidden:
            self._tell_forbidden()
            return Notice()
        except KubernetesError as error:
            _log.info("Events about %s %s cannot be read: %s", obj["kind"], metadata["name"], error)
            return None
        telling = [event for event in events if event.get("reason") in TELLING[obj["kind"]]]
        return _notice(max(telling, key=_last_seen)) if telling else Notice()

    async def _about(self, namespace: str, uid: str) -> list[dict[str, Any]]:
        """Read one page of the Events about an object: there are few, and each stands for all that are equal."""
        selector = f"involvedObject.uid={uid}"
        async for page in self._client.list_pages(EVENTS, namespace, field_selector=selector):
            return page.items
        return []

    def _tell_forbidden(self) -> None:
        if not self._told_forbidden:
            self._told_forbidden = True
            _log.warning("the account may not list events, so what only these say is not told; update its role")


def _last_seen(event: JsonObject) -> str:
    """Return when an Event was last seen, in RFC 3339; by whichever API it was written."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((each for each in times if each), ""))


def _notice(event: JsonObject) -> Notice:
    return Notice(reason=str(event.get("reason") or ""), message=str(event.get("message") or ""))

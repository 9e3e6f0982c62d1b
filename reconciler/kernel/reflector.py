"""Keeps a store equal to what the API server holds: list, compare, watch, and nothing else.

Only the comparison after a list notices what was deleted while no watch was open, so every way back to health passes
through it. The rules are those of section 6 of the controller study, one test per row of its fault table.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import Expired, Invalid, KubernetesError
from reconciler.kernel.resources import (
    KubernetesObject,
    ObjectKey,
    Resource,
    object_key,
    object_uid,
    resource_version,
)
from reconciler.kernel.retry import BackoffPolicy
from reconciler.kernel.store import Store, parse_version
from reconciler.kernel.stream import WatchEvent
from reconciler.kernel.timing import REAL_TIME, Timing

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReflectorPolicy:
    """Timing of a reflector, in seconds.

    Attributes:
        backoff: Between failures; short, since every second of it is a second of blindness.
        healthy_after: A stream that lived this long ends the row of failures.
        settled_after: A stream that ended earlier is a failure even when it ended cleanly, or a server that closes at
            once would be called in a loop.
        watch_seconds: Range of the time after which the server is asked to end a stream, so that streams spread out.
    """

    backoff: BackoffPolicy = field(default=BackoffPolicy(base=0.5, cap=5.0, jitter=0.5))
    healthy_after: float = 60.0
    settled_after: float = 5.0
    watch_seconds: tuple[int, int] = (240, 360)


DEFAULT_POLICY = ReflectorPolicy()


@dataclass(slots=True)
class ReflectorStatus:
    """What one reflector saw, for health checks and metrics; `last_contact` is on the reflector's clock."""

    synced: bool = False
    connected: bool = False
    last_contact: float = 0.0
    relists: int = 0
    events: int = 0
    failures: int = 0


class Reflector:
    """Mirrors one resource, in one namespace or ("") in all, into a store that several reflectors may share."""

    def __init__(  # noqa: PLR0913 - what to mirror, where to, and the injected policies
        self,
        client: KubernetesClient,
        resource: Resource,
        store: Store,
        *,
        namespace: str = "",
        label_selector: str = "",
        policy: ReflectorPolicy = DEFAULT_POLICY,
        timing: Timing = REAL_TIME,
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.store = store
        self.status = ReflectorStatus()
        self._client = client
        self._label_selector = label_selector
        self._policy = policy
        self._timing = timing
        self._clock = timing.clock
        self._synced = asyncio.Event()
        self._version: str | None = None  # Where the next watch starts; None asks for a list.
        self._connected_at: float | None = None
        self._reported = ""  # The failure warned about since the last connection.

    async def wait_until_synced(self) -> None:
        """Return once the store has held a complete list."""
        await self._synced.wait()

    async def run(self) -> None:
        """Mirror until cancelled. Only a bug (an exception that is no `KubernetesError`) ends it otherwise."""
        while True:
            delay = await self._round()
            if delay:
                await self._timing.sleep(delay)

    async def _round(self) -> float:
        """List if need be, then watch until the stream ends; returns the seconds to wait before the next round."""
        self._connected_at = None
        try:
            if self._version is None:
                self._version = await self._list()
            await self._watch(self._version)
        except KubernetesError as error:
            return self._after_failure(error, self._lived())
        finally:
            self.status.connected = False
        return self._after_clean_close(self._lived())

    def _lived(self) -> float:
        """Seconds since this round's stream was opened; 0 when it never was."""
        return 0.0 if self._connected_at is None else self._clock() - self._connected_at

    def _after_clean_close(self, lived: float) -> float:
        if lived >= self._policy.settled_after:
            self.status.failures = 0
            return 0.0
        return self._next_delay(lived)

    def _after_failure(self, error: KubernetesError, lived: float) -> float:
        relist = _asks_for_list(error, lived)
        if relist:
            self._version = None
        if relist and lived >= self._policy.settled_after:
            return 0.0
        delay = self._next_delay(lived)
        self._report(error, delay)
        return delay

    def _report(self, error: KubernetesError, delay: float) -> None:
        """Warn once about a failure that repeats itself: an outage would fill the log otherwise."""
        level = logging.DEBUG if str(error) == self._reported else logging.WARNING
        self._reported = str(error)
        _log.log(level, "watch of %s failed, next try in %.1f s: %s", self.name, delay, error)

    def _next_delay(self, lived: float) -> float:
        if lived >= self._policy.healthy_after:
            self.status.failures = 0
        self.status.failures += 1
        return self._policy.backoff.delay(self.status.failures, self._timing.fraction())

    @property
    def name(self) -> str:
        """What is mirrored, for logs and health checks."""
        return f"{self.resource.qualified_name} in {self.namespace or 'all namespaces'}"

    async def _list(self) -> str:
        """Make the store equal to a fresh list; returns the version to watch from."""
        items: list[KubernetesObject] = []
        version = ""
        pages = self._client.list_pages(
            self.resource, self.namespace, label_selector=self._label_selector, trim=self.store.trim
        )
        async for page in pages:
            items.extend(page.items)
            version = version or page.resource_version
            self.status.last_contact = self._clock()
        self._compare(items, version)
        self.status.relists += 1
        self.status.synced = True
        self._synced.set()
        return version

    def _compare(self, items: Iterable[KubernetesObject], version: str) -> None:
        """Take over a list: what it lacks was deleted, what has another version was modified.

        Our own writes may be newer than the list and stay; unless history itself went back (a restored backup), when
        the list is right about everything.
        """
        restored = parse_version(version) < self.store.observed(self.namespace)
        listed = {object_key(item): item for item in items}
        for key in self.store.keys(self.namespace):
            if key not in listed and (restored or not self._is_newer(key, version)):
                self.store.remove(key)
        put = self.store.overwrite if restored else self.store.upsert
        for item in listed.values():
            put(item)
        self.store.observe(self.namespace, version)

    def _is_newer(self, key: ObjectKey, version: str) -> bool:
        stored = self.store.get(key)
        return stored is not None and parse_version(resource_version(stored)) > parse_version(version)

    async def _watch(self, version: str) -> None:
        shortest, longest = self._policy.watch_seconds
        seconds = round(shortest + (longest - shortest) * self._timing.fraction())
        async with self._client.watch(
            self.resource,
            self.namespace,
            resource_version=version,
            timeout_seconds=seconds,
            label_selector=self._label_selector,
        ) as stream:
            self._connected_at = self.status.last_contact = self._clock()
            self.status.connected = True
            self._reported = ""
            async for event in stream:
                self._take(event)

    def _take(self, event: WatchEvent) -> None:
        self.status.last_contact = self._clock()
        obj = event.object
        if event.type != "BOOKMARK":
            self.status.events += 1
            self._store(event.type, self.store.trim(obj))
        self._version = resource_version(obj) or self._version
        self.store.observe(self.namespace, self._version or "")

    def _store(self, event_type: str, obj: KubernetesObject) -> None:
        if event_type == "DELETED":
            self.store.remove(object_key(obj), object_uid(obj))
        else:
            self.store.upsert(obj)


def reflectors_for(
    client: KubernetesClient, resource: Resource, store: Store, namespaces: Iterable[str], *, label_selector: str = ""
) -> list[Reflector]:
    """One reflector per namespace into one store, or a single one for all namespaces when none is named."""
    return [
        Reflector(client, resource, store, namespace=namespace, label_selector=label_selector)
        for namespace in list(namespaces) or [""]
    ]


def _asks_for_list(error: KubernetesError, lived: float) -> bool:
    """Whether the version we watch from may be unusable.

    410 says it is too old, 400 that it cannot be read. A version the server has not reached, as after a restored
    backup, it answers with a stream that is open and silent, without even bookmarks: so silence asks for a list as
    well.
    """
    return isinstance(error, Expired | Invalid) or (error.reason == "Timeout" and lived > 0)

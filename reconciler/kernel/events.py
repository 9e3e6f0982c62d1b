"""Records Events (events.k8s.io/v1) without ever holding up a reconcile.

`record` only notes; a task of its own sends. Equal events within six minutes become one object whose series counts,
each object may cause only so many, and what cannot be sent is dropped and counted: Events are for people, nothing
depends on them (section 7.4 of the controller study).
"""

import asyncio
import hashlib
import logging
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn, Self, TypeVar

from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import AlreadyExists, KubernetesError
from reconciler.kernel.resources import Resource, object_key, object_uid, resource_version
from reconciler.kernel.timing import REAL_TIME, Timing, micro_time

_log = logging.getLogger(__name__)

EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
NOTE_BYTES = 1024
K = TypeVar("K")
V = TypeVar("V")
EventType = Literal["Normal", "Warning"]

_SERIES_SECONDS = 360.0
_QUEUE_LIMIT = 1000
_MEMORY_LIMIT = 4096
_NAME_LIMIT = 253
_INSTANCE_LIMIT = 128
_BURST = 25
_REFILL_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = ""

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> Self:
        """Refer to an object that carries its `apiVersion` and `kind`."""
        namespace, name = object_key(obj)
        return cls(obj["apiVersion"], obj["kind"], namespace, name, object_uid(obj), resource_version(obj))

    def to_dict(self) -> dict[str, str]:
        """Return a core/v1 ObjectReference without empty fields."""
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {name: value for name, value in fields.items() if value}


@dataclass(slots=True)
class TokenBucket:
    """So many at once, and one more per `refill` seconds."""

    burst: int = _BURST
    refill: float = _REFILL_SECONDS
    tokens: float = _BURST
    at: float = 0.0

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        self.tokens = min(self.burst, self.tokens + (now - self.at) / self.refill)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class _Identity(NamedTuple):
    """What makes two events equal."""

    uid: str
    type: EventType
    reason: str
    note: str


@dataclass(slots=True)
class _Series:
    """Equal events: one object on the server, created by the first and patched by the others."""

    regarding: ObjectReference
    name: str
    first: str
    last: str
    seen_at: float
    count: int = 1
    sent_count: int = 0
    queued: bool = False


class EventRecorder:
    """Sends Events in the background.

    Args:
        client: Connection to the API server; it needs create and patch on events in events.k8s.io.
        controller: `reportingController`, a qualified name.
        instance: `reportingInstance`, the Pod's name.
        on_drop: Told the reason of every event that was not sent: `QueueFull`, `RateLimited`, or the server's own.
    """

    def __init__(
        self,
        client: KubernetesClient,
        *,
        controller: str,
        instance: str,
        on_drop: Callable[[str], None] = lambda _: None,
        timing: Timing = REAL_TIME,
    ) -> None:
        self._client = client
        self._controller = controller
        self._instance = instance[:_INSTANCE_LIMIT]
        self._on_drop = on_drop
        self._timing = timing
        self._series: OrderedDict[_Identity, _Series] = OrderedDict()
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()
        self._queue: deque[_Identity] = deque()
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def record(
        self, regarding: ObjectReference, event_type: EventType, reason: str, note: str, *, occasion: str = ""
    ) -> None:
        """Note an event; returns at once and never raises. The note is cut to 1024 bytes.

        With an `occasion` the event's name follows from that and from all it says, so that it exists once however often
        it is recorded, also by a process that does not know whether the one before it got that far.
        """
        identity = _Identity(regarding.uid, event_type, reason, _cut(note, NOTE_BYTES))
        now, stamp = self._timing.clock(), micro_time(self._timing.now())
        series = self._series.get(identity)
        if series is None or occasion or (now - series.seen_at > _SERIES_SECONDS and not series.queued):
            series = _Series(regarding, _event_name(regarding, identity, occasion), stamp, stamp, now)
        else:
            series.count, series.last, series.seen_at = series.count + 1, stamp, now
        if series.queued:
            return
        refusal = self._refusal(regarding.uid, now)
        if refusal:
            self._on_drop(refusal)
            return
        _remember(self._series, identity, series)
        series.queued = True
        self._queue.append(identity)
        self._idle.clear()
        self._changed.set()

    async def run(self) -> NoReturn:
        """Send what is recorded, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._queue:
                await self._send(self._queue.popleft())
            self._idle.set()

    async def flush(self, seconds: float) -> None:
        """Wait until all is sent, but no longer than that; `run` must be running."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("%d events were not sent before the end", len(self._queue))

    def _refusal(self, uid: str, now: float) -> str:
        if len(self._queue) >= _QUEUE_LIMIT:
            return "QueueFull"
        bucket = self._buckets.get(uid) or TokenBucket(at=now)
        _remember(self._buckets, uid, bucket)
        return "" if bucket.take(now) else "RateLimited"

    async def _send(self, identity: _Identity) -> None:
        series = self._series.get(identity)
        if series is None:
            return
        series.queued = False
        try:
            if series.sent_count == 0:
                await self._create(identity, series)
            if series.count > series.sent_count:
                await self._patch(series)
        except KubernetesError as error:
            # Forgotten, so that the next one of its kind starts afresh: the object may have expired or never existed.
            self._series.pop(identity, None)
            self._on_drop(error.reason)
            _log.warning("event %s about %s dropped: %s", identity.reason, series.regarding.name, error)

    async def _create(self, identity: _Identity, series: _Series) -> None:
        namespace = series.regarding.namespace or "default"
        body = {
            "metadata": {"name": series.name, "namespace": namespace},
            "eventTime": series.first,
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": identity.reason,
            "reason": identity.reason,
            "type": identity.type,
            "regarding": series.regarding.to_dict(),
            "note": identity.note,
        }
        try:
            await self._client.create(EVENTS, namespace, body)
        except AlreadyExists:
            _log.debug("event %s about %s was told before", identity.reason, series.regarding.name)
        series.sent_count = 1

    async def _patch(self, series: _Series) -> None:
        count = series.count
        patch = {"series": {"count": count, "lastObservedTime": series.last}}
        await self._client.merge_patch(EVENTS, series.regarding.namespace or "default", series.name, patch)
        series.sent_count = count


def _remember(memory: OrderedDict[K, V], key: K, value: V) -> None:
    """Keep the value as the latest of a bounded memory; the one unused for longest falls out."""
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > _MEMORY_LIMIT:
        memory.popitem(last=False)


def _event_name(regarding: ObjectReference, identity: _Identity, occasion: str) -> str:
    told = "\n".join((*identity, occasion)).encode()
    suffix = f".{hashlib.sha256(told).hexdigest()[:16] if occasion else secrets.token_hex(8)}"
    return regarding.name[: _NAME_LIMIT - len(suffix)].rstrip(".-") + suffix


def _cut(text: str, limit: int) -> str:
    """Cut to so many bytes of UTF-8 (the server counts bytes), never inside a character."""
    encoded = text.encode("utf-8", "replace")
    return text if len(encoded) <= limit else encoded[: limit - 3].decode("utf-8", "ignore") + "..."

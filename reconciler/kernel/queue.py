"""A keyed work queue with the rules of client-go.

A key is in at most one worker's hands; adding it meanwhile marks it dirty, and `done` puts it back, so bursts
collapse and nothing is lost. Delayed adds keep the earliest time per key. Time and randomness are passed in; only
`get` waits.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from reconciler.kernel.retry import BackoffPolicy
from reconciler.kernel.timing import REAL_TIME, Timing

K = TypeVar("K", bound=Hashable)

# Stale heap entries are tolerated up to this many before the heap is rebuilt.
_HEAP_SLACK = 64
FAILURE_BACKOFF = BackoffPolicy(base=1.0, cap=300.0, jitter=0.2)


class QueueObserver(Protocol):
    """Hears about what happens to keys; durations are seconds."""

    def added(self) -> None:
        """A key entered the queue."""

    def taken(self, waited: float) -> None:
        """A worker took a key that had waited so long."""

    def finished(self, worked: float) -> None:
        """A worker finished a key after so long."""

    def retried(self) -> None:
        """A key was added again after a failure."""


class _Unobserved:
    """The observer of a queue nobody measures."""

    def added(self) -> None: ...
    def taken(self, waited: float) -> None: ...
    def finished(self, worked: float) -> None: ...
    def retried(self) -> None: ...


class WorkQueue(Generic[K]):
    """Keys waiting for a worker, each once."""

    def __init__(
        self,
        *,
        timing: Timing = REAL_TIME,
        backoff: BackoffPolicy = FAILURE_BACKOFF,
        observer: QueueObserver | None = None,
    ) -> None:
        self._clock = timing.clock
        self._fraction = timing.fraction
        self._backoff = backoff
        self._observer: QueueObserver = observer or _Unobserved()
        self._ready: deque[K] = deque()
        self._dirty: dict[K, float] = {}  # Every key that wants work, and since when.
        self._processing: dict[K, float] = {}  # Every key in a worker's hands, and since when.
        self._due: dict[K, float] = {}
        self._timers: list[tuple[float, int, K]] = []  # May hold stale entries; `_due` is the truth.
        self._sequence = itertools.count()
        self._failures: dict[K, int] = {}
        self._changed = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        """Keys ready to be taken."""
        return len(self._ready)

    @property
    def processing(self) -> frozenset[K]:
        """Keys in workers' hands."""
        return frozenset(self._processing)

    @property
    def longest_running(self) -> float:
        """Seconds the oldest key has been in a worker's hands; 0 when none is."""
        return self._clock() - min(self._processing.values()) if self._processing else 0.0

    @property
    def unfinished_seconds(self) -> float:
        """Seconds all keys in workers' hands have been there, together."""
        now = self._clock()
        return sum(now - since for since in self._processing.values())

    def add(self, key: K) -> None:
        """Queue the key now; a later timer for it is moot."""
        self._due.pop(key, None)
        if self._closed or key in self._dirty:
            return
        self._dirty[key] = self._clock()
        self._observer.added()
        if key not in self._processing:
            self._ready.append(key)
            self._changed.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Queue the key in so many seconds, or earlier if an earlier time is already set or it is queued already."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock() + seconds
        if self._closed or key in self._dirty or self._due.get(key, due + 1) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._timers, (due, next(self._sequence), key))
        self._drop_stale_timers()
        self._changed.set()

    def add_rate_limited(self, key: K) -> float:
        """Queue the key after its failure back-off; returns the seconds."""
        self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._backoff.delay(self._failures[key], self._fraction())
        self._observer.retried()
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """End the row of failures of a key."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Failures of the key in a row."""
        return self._failures.get(key, 0)

    def take(self) -> K | None:
        """Take the next key without waiting; None when none is ready."""
        self._release_due()
        if self._closed or not self._ready:
            return None
        key = self._ready.popleft()
        now = self._clock()
        self._observer.taken(now - self._dirty.pop(key))
        self._processing[key] = now
        return key

    async def get(self) -> K | None:
        """Wait for a key and take it; None once the queue is closed."""
        while not self._closed:
            key = self.take()
            if key is not None:
                return key
            self._changed.clear()
            await self._wait_for_change()
        return None

    def done(self, key: K) -> None:
        """Give a taken key back; if it was added meanwhile, it is ready again.

        Raises:
            KeyError: Nobody had taken it.
        """
        self._observer.finished(self._clock() - self._processing.pop(key))
        if key in self._dirty and not self._closed:
            self._ready.append(key)
            self._changed.set()

    def spread_ready(self, seconds: float) -> None:
        """Move every key that is ready now to a random time within so many seconds, each to its own.

        After a start all keys are ready at once, and would march in step for ever.
        """
        spread = list(self._ready)
        self._ready.clear()
        for key in spread:
            del self._dirty[key]
            self.add_after(key, seconds * self._fraction())

    def close(self) -> None:
        """Hand out no more keys and wake everyone who waits for one."""
        self._closed = True
        self._changed.set()

    def next_due(self) -> float | None:
        """The time of the earliest timer, None without one."""
        self._pop_stale_timers()
        return self._timers[0][0] if self._timers else None

    async def _wait_for_change(self) -> None:
        due = self.next_due()
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - self._clock())):
                await self._changed.wait()
        except TimeoutError:
            return  # A timer is due; the caller looks again.

    def _release_due(self) -> None:
        now = self._clock()
        while (due := self.next_due()) is not None and due <= now:
            self.add(self._timers[0][2])

    def _pop_stale_timers(self) -> None:
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heapq.heappop(self._timers)

    def _drop_stale_timers(self) -> None:
        if len(self._timers) > 2 * len(self._due) + _HEAP_SLACK:
            self._timers = [timer for timer in self._timers if self._due.get(timer[2]) == timer[0]]
            heapq.heapify(self._timers)

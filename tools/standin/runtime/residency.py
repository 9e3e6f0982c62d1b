"""Which models are loaded, for how long, and which must go: the residency rules of spec section 2.6.

A child process of the real runtime is a `Child` here. Everything is done under one lock; loads, which take time, are
serialised by a second one and show nothing until they are done.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .clock import Clock
from .durations import FOREVER
from .errors import ApiError
from .loading import LoadedModel
from .store import StoredModel
from .switches import SwitchBoard, Switches

_log = logging.getLogger("ollaya")


@dataclass(slots=True, eq=False)
class Child:
    """One loaded model and its residency; times are of the monotonic clock, `deadline` is infinite when pinned."""

    name: str
    loaded: LoadedModel
    deadline: float
    last_used: float
    in_flight: int = 0
    answered: int = 0
    crashed: bool = False

    @property
    def is_pinned(self) -> bool:
        """Whether only eviction, a crash or an unload ends its residency."""
        return self.deadline == FOREVER

    def is_over(self, now: float) -> bool:
        """Whether the reaper takes it away at `now`."""
        return self.crashed or (self.in_flight == 0 and self.deadline <= now)


@dataclass(frozen=True, slots=True)
class Resident:
    """What `/api/ps` shows of a child; `expires_at` in epoch seconds, None when pinned."""

    name: str
    loaded: LoadedModel
    expires_at: float | None


def choose_victims(children: Iterable[Child], limit: int) -> list[Child]:
    """Return the children to unload before one more is loaded: least recently used idle ones, pinned or not."""
    everyone = list(children)
    idle = sorted((child for child in everyone if child.in_flight == 0), key=lambda child: child.last_used)
    return idle[: max(0, len(everyone) + 1 - limit)]


class Residency:
    """The loaded models of a daemon, one child per manifest digest."""

    def __init__(self, clock: Clock, board: SwitchBoard, limit: int) -> None:
        self._clock = clock
        self._board = board
        self._limit = limit
        self._children: dict[str, Child] = {}
        self._changed = threading.Condition()
        self._loading = threading.Lock()

    def acquire(
        self, model: StoredModel, name: str, keep_alive: float, load: Callable[[StoredModel], LoadedModel]
    ) -> tuple[Child, float]:
        """Return a child in use by the caller and the seconds its load took; `release` it when done.

        A child loaded here has `keep_alive` seconds of residency even if the caller never comes back for it.
        """
        child = self._take(model.digest)
        if child is not None:
            return child, 0.0
        with self._loading:
            child = self._take(model.digest)
            if child is not None:
                return child, 0.0
            self._make_room()
            started = self._clock.monotonic()
            loaded = load(model)
            now = self._clock.monotonic()
            child = Child(name, loaded, now + self._residency(loaded, keep_alive), now, in_flight=1)
            with self._changed:
                self._children[model.digest] = child
            return child, now - started

    def release(self, child: Child, keep_alive: float) -> None:
        """End a use; the last finished request decides how long the child stays, over any earlier pin."""
        with self._changed:
            now = self._clock.monotonic()
            child.in_flight -= 1
            child.last_used = now
            child.deadline = now + self._residency(child.loaded, keep_alive)
            self._changed.notify_all()

    def count_answer(self, child: Child) -> None:
        """Note an answered decision; a child told to die after so many does."""
        child.answered += 1
        limit = self.switches_of(child).crash_after
        if limit is not None and child.answered >= limit:
            self._crash(child)

    def unload(self, digest: str) -> None:
        """Take the entry away at once, then wait for its requests; fine if nothing is loaded."""
        with self._changed:
            child = self._children.pop(digest, None)
            if child is None:
                return
            self._changed.wait_for(lambda: child.in_flight == 0 or child.crashed)
        _log.info("unloaded model model=%s", child.name)

    def kill(self, name: str | None) -> int:
        """Let the children called `name`, or all, die as if killed; return how many."""
        with self._changed:
            doomed = [child for child in self._children.values() if name in {None, child.name}]
        for child in doomed:
            self._crash(child)
        return len(doomed)

    def crash(self, child: Child) -> ApiError:
        """Let `child` die in the middle of a request and return what that request is answered."""
        self._crash(child)
        return ApiError("INFERENCE_FAILED", f'the runner of model "{child.name}" is gone')

    def reap(self) -> None:
        """Remove what has expired or crashed."""
        with self._changed:
            now = self._clock.monotonic()
            for digest in [digest for digest, child in self._children.items() if child.is_over(now)]:
                child = self._children.pop(digest)
                _log.info("unloaded model model=%s crashed=%s", child.name, child.crashed)

    def residents(self) -> list[Resident]:
        """Return what is loaded, by name."""
        with self._changed:
            return sorted((self._resident(child) for child in self._children.values()), key=lambda each: each.name)

    def switches_of(self, child: Child) -> Switches:
        """Return the switches in force for requests to `child`."""
        return self._board.current.over(child.loaded.parameters.switches)

    def _take(self, digest: str) -> Child | None:
        with self._changed:
            child = self._children.get(digest)
            if child is None:
                return None
            if child.crashed:
                raise ApiError("INFERENCE_FAILED", f'the runner of model "{child.name}" is gone')
            child.in_flight += 1
            return child

    def _make_room(self) -> None:
        with self._changed:
            for victim in choose_victims(self._children.values(), self._limit):
                del self._children[victim.loaded.model.digest]
                _log.info("unloaded model model=%s evicted=true", victim.name)

    def _residency(self, loaded: LoadedModel, keep_alive: float) -> float:
        unpinned = self._board.current.over(loaded.parameters.switches).unpinned
        return unpinned if unpinned is not None and math.isinf(keep_alive) else keep_alive

    def _crash(self, child: Child) -> None:
        with self._changed:
            child.crashed = True
            self._changed.notify_all()
        _log.warning("runner exited model=%s status=signal: 9 (SIGKILL)", child.name)

    def _resident(self, child: Child) -> Resident:
        if child.is_pinned:
            return Resident(child.name, child.loaded, None)
        remaining = 0.0 if child.in_flight else max(0.0, child.deadline - self._clock.monotonic())
        return Resident(child.name, child.loaded, self._clock.wall() + remaining)

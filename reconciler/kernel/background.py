"""Slow work outside the workers: each piece has a key, runs once at a time, and leaves an outcome.

A reconcile pass never waits. What it wants to know (a probe, a registry answer, a Pulumi operation) it starts here;
when that ends, the outcome is kept and the object's key is queued again, so the next pass finds it as a fact.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

from reconciler.kernel.resources import ObjectKey
from reconciler.turns import FairSlots

_log = logging.getLogger(__name__)

# Cancelled work gets this long to clean up after itself; a process that must end does not wait longer.
_UNWIND_SECONDS = 20.0


class TaskKey(NamedTuple):
    """Identifies a piece of work: for which object, of what kind, and which one of that kind."""

    owner: ObjectKey
    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a piece of work ended: with a value, or with the error it raised; `ended_at` is on the injected clock."""

    value: Any
    error: Exception | None
    ended_at: float


class BackgroundTasks:
    """A set of keyed tasks with a limit of parallel ones per kind, which namespaces share fairly.

    Args:
        limits: Parallel tasks per kind, None for any number; these are all kinds there are.
        reserved: Kinds whose work may take for ever: some of their slots stay free for namespaces that hold none.
        on_end: Called with the owner when a task ended by itself (to queue its key), not when it was cancelled.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        limits: Mapping[str, int | None],
        on_end: Callable[[ObjectKey], None],
        *,
        reserved: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slots = {
            kind: None if limit is None else FairSlots(limit, reserve=kind in reserved, clock=clock)
            for kind, limit in limits.items()
        }
        self._on_end = on_end
        self._clock = clock
        self._tasks: dict[TaskKey, asyncio.Task[None]] = {}
        self._begun: dict[TaskKey, float] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._outcomes: dict[TaskKey, Outcome] = {}
        self._unread: set[TaskKey] = set()
        self._by_owner: dict[ObjectKey, set[TaskKey]] = {}
        """The keys that have a task or an outcome: what is asked about one owner must not walk all others'."""
        self._closed = False

    def start(self, key: TaskKey, work: Callable[[], Awaitable[Any]], *, keep_outcome: bool = True) -> bool:
        """Run the work unless work of that key is running already, or the set is stopped; returns whether it was.

        The previous outcome stays readable until this work replaces it.

        Args:
            key: Identifies the work.
            work: What to do.
            keep_outcome: Whether somebody will look at the outcome; if nobody will, an error is logged.

        Raises:
            KeyError: There is no such kind.
        """
        slots = self._slots[key.kind]
        if self._closed or key in self._tasks:
            return False
        running = self._run(key, slots, work, keep_outcome=keep_outcome)
        task = asyncio.create_task(running, name="/".join((*key.owner, key.kind, key.detail)))
        self._tasks[key] = task
        self._by_owner.setdefault(key.owner, set()).add(key)
        task.add_done_callback(lambda ended: self._ended(key, ended))
        return True

    def running(self, key: TaskKey) -> bool:
        """Whether work of that key runs, or waits for its turn."""
        return key in self._tasks

    def begun(self, key: TaskKey) -> float | None:
        """When the running work of that key got its slot, on the injected clock; None while it waits, or is none."""
        return self._begun.get(key)

    def slots(self) -> Mapping[str, FairSlots]:
        """The slots of each kind whose number is limited."""
        return {kind: slots for kind, slots in self._slots.items() if slots is not None}

    def count(self, kind: str) -> int:
        """Tasks of a kind that run or wait."""
        return sum(key.kind == kind for key in self._tasks)

    def outcome(self, key: TaskKey) -> Outcome | None:
        """How the last work of that key ended; it stays until replaced or forgotten."""
        self._unread.discard(key)
        return self._outcomes.get(key)

    def take(self, key: TaskKey) -> Outcome | None:
        """Return the outcome and forget it."""
        self._unread.discard(key)
        outcome = self._outcomes.pop(key, None)
        self._drop_if_empty(key)
        return outcome

    def cancel(self, owner: ObjectKey, kind: str | None = None, detail: str | None = None) -> None:
        """Cancel an object's tasks and forget their outcomes: all, or those of a kind, or the one of that detail.

        The keys are free at once; their slots when the tasks have really ended.
        """
        owned = self._by_owner.get(owner, set())
        selected = [key for key in owned if kind in {None, key.kind} and detail in {None, key.detail}]
        self._cancel([key for key in selected if key in self._tasks])
        for key in selected:
            self._forget(key)

    async def stop(self, drain: Collection[str] = (), seconds: float = 0.0) -> None:
        """Start nothing more, cancel all but the kinds to drain, give those the time, then cancel them as well.

        Drained tasks still leave outcomes and call back.
        """
        self._closed = True
        self._cancel([key for key in self._tasks if key.kind not in drain])
        if self._tasks and seconds > 0:
            await asyncio.wait(self._tasks.values(), timeout=seconds)
        if self._tasks:
            _log.warning("cancelling what did not end in time: %s", ", ".join(sorted(map(_describe, self._tasks))))
        self._cancel(list(self._tasks))
        if self._ending:
            _, stuck = await asyncio.wait(self._ending, timeout=_UNWIND_SECONDS)
            for task in stuck:
                _log.error("%s ignores its cancellation", task.get_name())

    async def _run(
        self,
        key: TaskKey,
        slots: FairSlots | None,
        work: Callable[[], Awaitable[Any]],
        *,
        keep_outcome: bool,
    ) -> None:
        async with nullcontext() if slots is None else slots.hold(key.owner.namespace):
            value, error = None, None
            self._begun[key] = self._clock()
            try:
                value = await work()
            except Exception as raised:  # noqa: BLE001 - the error is the outcome, for the caller to judge
                error = raised
        if self._tasks.get(key) is not asyncio.current_task():
            return
        self._forget(key)
        if keep_outcome:
            self._outcomes[key] = Outcome(value, error, self._clock())
            self._unread.add(key)
        elif error is not None:
            _log.error("%s failed", _describe(key), exc_info=error)

    def _ended(self, key: TaskKey, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if self._tasks.get(key) is not task:
            return  # Cancelled by us; the key may already belong to a newer task.
        del self._tasks[key]
        self._begun.pop(key, None)
        self._drop_if_empty(key)
        self._on_end(key.owner)

    def _cancel(self, keys: Collection[TaskKey]) -> None:
        for key in keys:
            task = self._tasks.pop(key)
            self._begun.pop(key, None)
            self._drop_if_empty(key)
            self._ending.add(task)
            task.cancel()

    def _forget(self, key: TaskKey) -> None:
        outcome = self._outcomes.pop(key, None)
        if outcome is not None and outcome.error is not None and key in self._unread:
            _log.warning("nobody read how %s failed: %r", _describe(key), outcome.error)
        self._unread.discard(key)
        self._drop_if_empty(key)

    def _drop_if_empty(self, key: TaskKey) -> None:
        owned = self._by_owner.get(key.owner)
        if owned is None or key in self._tasks or key in self._outcomes:
            return
        owned.discard(key)
        if not owned:
            del self._by_owner[key.owner]


def _describe(key: TaskKey) -> str:
    return f"{key.kind} {key.detail} of {key.owner}".replace("  ", " ")

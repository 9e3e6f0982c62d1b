"""Whether a stack needs anything, and what: a pure decision over drift and what is remembered of past operations.

No drift, no operation: a steady fleet costs the engine nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from components.desired import DesiredStack
from components.drift import Cause, Drift
from components.manifests import ObjectKey, render
from reconciler.driver import Failure, OperationKind

SETTLING_SECONDS = 2.0
"""How long the watch cache may take to show what an operation has just done."""
FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 300.0
CONTESTED_AFTER = 3
"""Repairs in a row that somebody undid, after which a person is told; an autoscaler undoes every one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is remembered about one model's stack within this process. Losing it costs one refreshing operation.

    `ended_at` and `retry_at` are monotonic seconds.
    """

    applied: DesiredStack | None = None
    """What the last successful operation was asked for; None after a failure, which may have changed anything."""
    addressed: tuple[Drift, ...] = ()
    """The drift that the last operation was started for."""
    ended_at: float = 0.0
    failed: DesiredStack | None = None
    failure: Failure | None = None
    failures: int = 0
    retry_at: float = 0.0
    undone: int = 0
    """How many repairs of `addressed` in a row did not last five minutes."""

    def succeeded(self, desired: DesiredStack, drift: tuple[Drift, ...], now: float) -> Memory:
        """Return the memory after an operation that did what `desired` says."""
        undone = self.undone + 1 if self._repeats(desired, drift) and not self._at_peace(now) else 0
        return Memory(applied=desired, addressed=drift, ended_at=now, undone=undone)

    def pause(self, desired: DesiredStack, drift: tuple[Drift, ...], now: float) -> float:
        """Seconds until what was just done is done once more, which doubles while somebody undoes it every time."""
        if not self._repeats(desired, drift):
            return 0.0
        waited = now - self.ended_at
        if waited < SETTLING_SECONDS:
            return SETTLING_SECONDS / 10
        return max(0.0, _doubled(self.undone) - waited) if self.undone else 0.0

    def contested(self, now: float) -> tuple[Drift, ...]:
        """What somebody sets otherwise as often as it is repaired."""
        return self.addressed if self.undone >= CONTESTED_AFTER and not self._at_peace(now) else ()

    def _repeats(self, desired: DesiredStack, drift: tuple[Drift, ...]) -> bool:
        return bool(drift) and self.applied == desired and self.addressed == drift

    def _at_peace(self, now: float) -> bool:
        return now - self.ended_at >= _doubled(self.undone) + LONGEST_RETRY_SECONDS

    def broke(self, desired: DesiredStack, drift: tuple[Drift, ...], failure: Failure, now: float) -> Memory:
        """Return the memory after a failed operation; the pause before the next try doubles up to five minutes."""
        failures = self.failures + 1 if self.failed == desired else 1
        pause = _doubled(failures - 1) if failure.reason.retryable else LONGEST_RETRY_SECONDS
        return replace(
            self,
            applied=None,
            addressed=drift,
            ended_at=now,
            failed=desired,
            failure=failure,
            failures=failures,
            retry_at=now + pause,
        )


def _doubled(times: int) -> float:
    return min(FIRST_RETRY_SECONDS * 2.0**times, LONGEST_RETRY_SECONDS)


class Action(StrEnum):
    """What to do about a stack."""

    NOTHING = "Nothing"
    WAIT = "Wait"
    """Look again after the step's `seconds`."""
    CONFLICT = "Conflict"
    """A foreign object has a name of ours: nothing is touched."""
    OPERATE = "Operate"
    """Let the engine converge, with the step's `operation`."""
    PRUNE = "Prune"
    """Take out what somebody added to our objects; the engine cannot see it."""
    SWEEP = "Sweep"
    """Delete owned objects that the stack's state does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action and what it needs."""

    action: Action
    seconds: float = 0.0
    operation: OperationKind | None = None


def next_step(desired: DesiredStack, drift: tuple[Drift, ...], memory: Memory, now: float, *, empty: bool) -> Step:
    """Decide what a stack needs.

    Args:
        desired: What it should contain.
        drift: How the cluster differs from that.
        memory: What past operations did.
        now: Monotonic seconds.
        empty: Whether nothing of the stack exists in the cluster.
    """
    causes = {each.cause for each in drift}
    if Cause.FOREIGN in causes:
        return Step(action=Action.CONFLICT)
    if not drift:
        return Step(action=Action.NOTHING)
    if pause := _pause(desired, drift, memory, now):
        return Step(action=Action.WAIT, seconds=pause)
    if causes == {Cause.ADDED}:
        return Step(action=Action.PRUNE)
    if causes == {Cause.UNEXPECTED} and memory.applied == desired:
        return Step(action=Action.SWEEP)
    return Step(action=Action.OPERATE, operation=_operation(desired, drift, memory, empty=empty))


def _pause(desired: DesiredStack, drift: tuple[Drift, ...], memory: Memory, now: float) -> float:
    """Seconds to wait: until what failed may be tried again, or what was just done can have failed to last."""
    if memory.failed == desired and now < memory.retry_at:
        return memory.retry_at - now
    return memory.pause(desired, drift, now)


def _operation(desired: DesiredStack, drift: tuple[Drift, ...], memory: Memory, *, empty: bool) -> OperationKind:
    """An `up` alone never looks at the cluster: enough when only the program changed, or nothing exists yet."""
    applied = memory.applied
    program_changed = applied is not None and applied != desired and not _lost(applied, drift)
    first = empty and memory.failed is None
    return OperationKind.UP if program_changed or first else OperationKind.REFRESH_UP


def _lost(applied: DesiredStack, drift: tuple[Drift, ...]) -> bool:
    """Whether something is missing that the engine believes to exist."""
    declared = {manifest.key for manifest in render(applied)}
    return any(each.cause is Cause.MISSING and ObjectKey(each.kind, each.name) in declared for each in drift)

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

    def succeeded(self, desired: DesiredStack, drift: tuple[Drift, ...], now: float) -> Memory:
        """Return the memory after an operation that did what `desired` says."""
        return Memory(applied=desired, addressed=drift, ended_at=now)

    def broke(self, desired: DesiredStack, drift: tuple[Drift, ...], failure: Failure, now: float) -> Memory:
        """Return the memory after a failed operation; the pause before the next try doubles up to five minutes."""
        failures = self.failures + 1 if self.failed == desired else 1
        pause = min(FIRST_RETRY_SECONDS * 2 ** (failures - 1), LONGEST_RETRY_SECONDS)
        if not failure.reason.retryable:
            pause = LONGEST_RETRY_SECONDS
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
    """Seconds to wait: until a failed operation may be tried again, or until the cache shows what was just done."""
    if memory.failed == desired and now < memory.retry_at:
        return memory.retry_at - now
    repeated = memory.applied == desired and memory.addressed == drift
    return SETTLING_SECONDS / 10 if repeated and now - memory.ended_at < SETTLING_SECONDS else 0.0


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

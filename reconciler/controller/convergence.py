"""Whether a stack needs anything, and what: a pure decision over drift and what is remembered of past operations.

No drift, no operation: a steady fleet costs the engine nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from components.desired import DesiredStack
from components.drift import Cause, Drift
from components.manifests import ObjectKey, render
from reconciler.driver import Failure, OperationKind
from reconciler.kernel.retry import exponential

SETTLING_SECONDS = 2.0
"""How long the watch cache may take to show what an operation has just done."""
FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 300.0
CONTESTED_AFTER = 3
"""Repairs in a row that somebody undid, after which a person is told; an autoscaler undoes every one."""


@dataclass(frozen=True, slots=True)
class Repair:
    """The last repair of one difference: when it was, and how many in a row before it did not last."""

    at: float
    undone: int = 0

    def again(self, now: float) -> Repair:
        """Return the next repair of the same."""
        return Repair(now, 0 if self.lasted(now) else self.undone + 1)

    def lasted(self, now: float) -> bool:
        """Whether it has been for five minutes since it could have been repeated."""
        return now - self.at >= _pause_after(self.undone + 1) + LONGEST_RETRY_SECONDS

    def pause(self, now: float) -> float:
        """Seconds until it is repeated; at once for the first time."""
        return max(0.0, _pause_after(self.undone + 1) - (now - self.at)) if self.undone else 0.0


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
    repairs: Mapping[Drift, Repair] = field(default_factory=dict)
    """Of the differences from what was asked for last; those that lasted are forgotten."""

    def succeeded(self, desired: DesiredStack, drift: tuple[Drift, ...], now: float) -> Memory:
        """Return the memory after an operation that did what `desired` says."""
        known = {each: repair for each, repair in self._repairs_of(desired).items() if not repair.lasted(now)}
        repaired = {each: known[each].again(now) if each in known else Repair(now) for each in drift}
        return Memory(applied=desired, addressed=drift, ended_at=now, repairs={**known, **repaired})

    def broke(self, desired: DesiredStack, drift: tuple[Drift, ...], failure: Failure, now: float) -> Memory:
        """Return the memory after a failed operation; the pause before the next try doubles up to five minutes."""
        failures = self.failures + 1 if self.failed == desired else 1
        pause = _pause_after(failures) if failure.reason.retryable else LONGEST_RETRY_SECONDS
        return replace(
            self,
            applied=None,
            addressed=drift,
            ended_at=now,
            failed=desired,
            failure=failure,
            failures=failures,
            retry_at=now + pause,
            repairs=self._repairs_of(desired),
        )

    def settled(self) -> Memory:
        """Return the memory once nothing differs: what failed is not asked for any more, or was done."""
        return replace(self, failure=None, failures=0, retry_at=0.0)

    def pause(self, desired: DesiredStack, drift: tuple[Drift, ...], now: float) -> float:
        """Seconds to wait: until what failed may be tried again, or what was just done can have failed to last."""
        if self.failed == desired and now < self.retry_at:
            return self.retry_at - now
        if self.applied == desired and self.addressed == drift and now - self.ended_at < SETTLING_SECONDS:
            return SETTLING_SECONDS / 10
        repairs = self._repairs_of(desired)
        return min((repairs[each].pause(now) if each in repairs else 0.0 for each in drift), default=0.0)

    def contested(self, now: float) -> tuple[Drift, ...]:
        """What somebody sets otherwise as often as it is repaired."""
        return tuple(
            sorted(
                each
                for each, repair in self.repairs.items()
                if repair.undone >= CONTESTED_AFTER and not repair.lasted(now)
            )
        )

    def _repairs_of(self, desired: DesiredStack) -> Mapping[Drift, Repair]:
        """What is remembered of repairs: where something else was asked for meanwhile, it is us who changed things."""
        return self.repairs if desired in (self.applied, self.failed) else {}


def _pause_after(tries: int) -> float:
    return exponential(FIRST_RETRY_SECONDS, tries, LONGEST_RETRY_SECONDS)


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
    if pause := memory.pause(desired, drift, now):
        return Step(action=Action.WAIT, seconds=pause)
    if causes == {Cause.ADDED}:
        return Step(action=Action.PRUNE)
    if causes == {Cause.UNEXPECTED} and memory.applied == desired:
        return Step(action=Action.SWEEP)
    return Step(action=Action.OPERATE, operation=_operation(desired, drift, memory, empty=empty))


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

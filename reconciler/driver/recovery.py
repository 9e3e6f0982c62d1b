"""What to do about an operation that met the remains of an earlier one. Pure.

Precondition of the whole driver: the caller holds the Lease that makes it the only writer of this backend. Only
then is a lock left by another host the lock of a dead process; the backend's own lock carries no expiry and no
fencing, and `pulumi cancel` stops nobody (spec pulumi, section 2.7).

Every step is taken at most once for an operation, so an operation is tried at most `1 + len(RecoveryStep)` times.
A state that does not parse, or was tampered with, is never repaired here: what to put in its place is a person's
decision. Only where the stack is to be forgotten anyway is it thrown away.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from reconciler.driver.operation import FailureReason, OperationKind

_LOCK_COUNT = re.compile(r"currently locked by (\d+) lock")
_LOCK_LINE = re.compile(r"created by .*@(?P<host>[^@\s]*) \(pid (?P<pid>\d+)\) at (?P<time>\S+)")


class RecoveryStep(StrEnum):
    """What is done between two tries of an operation."""

    CREATE_STACK = "create the stack"
    CANCEL_LOCKS = "delete the locks of dead processes"
    CLEAR_PENDING_CREATES = "clear pending creates"
    DISCARD_STATE = "throw away a state that cannot be used"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOwner:
    """Who wrote a lock file."""

    host: str
    pid: int
    locked_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptoms:
    """What a try showed.

    Attributes:
        reason: Why it failed; None when it succeeded.
        stack_missing: The backend has no such stack.
        pending_operations: The state lists interrupted operations.
        lock_owners: Owners named by the message about the lock; empty when none could be read.
    """

    reason: FailureReason | None
    stack_missing: bool = False
    pending_operations: bool = False
    lock_owners: tuple[LockOwner, ...] = ()


def next_step(
    kind: OperationKind,
    symptoms: Symptoms,
    taken: AbstractSet[RecoveryStep],
    lives: Callable[[LockOwner], bool],
) -> RecoveryStep | None:
    """The step that may help, or None to leave the result as it is.

    Args:
        kind: The operation's kind.
        symptoms: What its last try showed.
        taken: Steps taken for this operation before.
        lives: Whether the owner of a lock may still be at work.
    """
    step = _step_for(kind, symptoms, lives)
    return None if step in taken else step


def _step_for(kind: OperationKind, symptoms: Symptoms, lives: Callable[[LockOwner], bool]) -> RecoveryStep | None:
    if symptoms.stack_missing:
        return None if kind in {OperationKind.DESTROY, OperationKind.REMOVE} else RecoveryStep.CREATE_STACK
    if symptoms.reason is FailureReason.LOCKED:
        dead = bool(symptoms.lock_owners) and not any(lives(owner) for owner in symptoms.lock_owners)
        return RecoveryStep.CANCEL_LOCKS if dead else None
    if symptoms.reason in {FailureReason.STATE_CORRUPT, FailureReason.STATE_TAMPERED}:
        return RecoveryStep.DISCARD_STATE if kind is OperationKind.REMOVE else None
    if symptoms.pending_operations and kind is not OperationKind.PREVIEW:
        return RecoveryStep.CLEAR_PENDING_CREATES
    return None


def parse_lock_owners(message: str) -> tuple[LockOwner, ...]:
    """Owners from the backend's message about held locks; empty unless every lock's owner could be read."""
    owners = [_owner(match) for match in _LOCK_LINE.finditer(message)]
    announced = _LOCK_COUNT.search(message)
    readable = tuple(owner for owner in owners if owner is not None)
    return readable if announced and int(announced[1]) == len(readable) else ()


def _owner(match: re.Match[str]) -> LockOwner | None:
    try:
        locked_at = datetime.fromisoformat(match["time"])
    except ValueError:
        return None
    if locked_at.tzinfo is None:
        return None
    return LockOwner(host=match["host"], pid=int(match["pid"]), locked_at=locked_at)

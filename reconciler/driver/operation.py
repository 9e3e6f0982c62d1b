"""What the controller asks of the driver and what it gets back: frozen values, no behaviour beyond validation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Program = Callable[[], None]
"""Declares a stack's resources. Must be picklable (a module-level function or a `functools.partial` of one)."""

_STACK_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


class OperationKind(StrEnum):
    """What to do with a stack."""

    UP = "Up"
    """Converge from the recorded state. Never reads the cluster where program and state agree."""
    REFRESH_UP = "RefreshUp"
    """Read the cluster first, then converge: the repair of drift."""
    PREVIEW = "Preview"
    """Say what `UP` would do. Takes no lock, writes nothing."""
    DESTROY = "Destroy"
    """Delete every object in the state. The empty stack stays."""
    REMOVE = "Remove"
    """Forget the stack and its state and history without touching the cluster."""


PROGRAM_KINDS = frozenset({OperationKind.UP, OperationKind.REFRESH_UP, OperationKind.PREVIEW})
"""The kinds that run a program; the others must not carry one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation on one stack.

    Attributes:
        kind: What to do.
        stack: Stack name without organisation and project, at most 100 characters.
        program: The desired content, for kinds in `PROGRAM_KINDS`; None otherwise.
        deadline_seconds: How long the work may take, recovery included, counted from when it leaves the queue.
        urgent: Whether it goes before others that wait for a worker.
        tenant: Whose it is: a namespace. Those of one keep no other's waiting.

    Raises:
        ValueError: A field contradicts the above.
    """

    kind: OperationKind
    stack: str
    program: Program | None = None
    deadline_seconds: float
    urgent: bool = False
    tenant: str = ""

    def __post_init__(self) -> None:
        if not _STACK_NAME.fullmatch(self.stack):
            raise ValueError(f"not a stack name: {self.stack[:120]!r}; use letters, digits, '.', '_' and '-'")
        if (self.program is not None) != (self.kind in PROGRAM_KINDS):
            raise ValueError(f"{self.kind} must {'carry' if self.program is None else 'not carry'} a program")
        if not self.deadline_seconds > 0:
            raise ValueError(f"the deadline must be positive, not {self.deadline_seconds}")


class FailureReason(StrEnum):
    """Why an operation failed. Closed: whatever fits nowhere else is `UNKNOWN`."""

    LOCKED = "Locked"
    """Another process that may still live holds the backend's lock."""
    PENDING_OPERATIONS = "PendingOperations"
    """Creations that a kill interrupted could not be cleared from the state."""
    POLICY_DENIED = "PolicyDenied"
    """A mandatory policy refused a resource."""
    POLICY_UNKNOWN = "PolicyUnknown"
    """A policy could not run, so nothing is known; counts as denied."""
    AWAIT_TIMEOUT = "AwaitTimeout"
    """An object did not become ready, or did not disappear, in time."""
    API_CONFLICT = "ApiConflict"
    """Another field manager owns a field, or the object exists already or changed meanwhile."""
    INVALID_OBJECT = "InvalidObject"
    """The API server or an admission webhook refused the object's content."""
    REFUSED = "Refused"
    """The API server refused the request itself: rights, quota, a missing or terminating namespace."""
    STATE_CORRUPT = "StateCorrupt"
    """The stack's state does not parse or contradicts itself. Needs a person; nothing is restored by itself."""
    STATE_TAMPERED = "StateTampered"
    """The stack's state records what no operation of ours does, and could make the engine do anything. Nothing was run.
    Needs a person."""
    WRONG_PASSPHRASE = "WrongPassphrase"  # noqa: S105 -- a reason, not a password
    """The passphrase is not the one the state was encrypted with."""
    UNREACHABLE = "Unreachable"
    """The Kubernetes API server did not answer."""
    BACKEND_UNREACHABLE = "BackendUnreachable"
    """The state backend did not answer, or refused access."""
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    """The operation outlived its deadline and was stopped."""
    PROGRAM_ERROR = "ProgramError"
    """The program raised, could not be loaded, or asked the engine for something it does not know."""
    INTERRUPTED = "Interrupted"
    """Stopped from outside: cancelled, the driver closing, or one of the processes killed."""
    UNKNOWN = "Unknown"
    """None of the above."""

    @property
    def retryable(self) -> bool:
        """Whether the same operation may succeed later with nobody changing program, state or configuration."""
        return self not in _PERMANENT


_PERMANENT = frozenset(
    {
        FailureReason.POLICY_DENIED,
        FailureReason.POLICY_UNKNOWN,
        FailureReason.INVALID_OBJECT,
        FailureReason.STATE_CORRUPT,
        FailureReason.STATE_TAMPERED,
        FailureReason.WRONG_PASSPHRASE,
        FailureReason.PROGRAM_ERROR,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an operation failed, fit for a condition's reason and message.

    Attributes:
        reason: The closed reason.
        message: One bounded text, without colour codes and the tools' automatic hints.
        urn: The resource concerned, when one is.
    """

    reason: FailureReason
    message: str
    urn: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChange:
    """One resource that an operation changed, tried to change, or (in a preview) would change.

    Attributes:
        urn: The engine's name of the resource.
        type: Its type token, such as `kubernetes:apps/v1:Deployment`.
        name: Its logical name in the program.
        op: The engine's word: `create`, `update`, `delete`, `replace` …
        changed_paths: Paths of the changed properties, sorted; empty for creations and deletions.
    """

    urn: str
    type: str
    name: str
    op: str
    changed_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an operation ended. A failed one may still have changed some resources.

    Attributes:
        stack: The operation's stack.
        kind: The operation's kind.
        failure: None when the operation succeeded.
        changes: Number of resources by engine operation, unchanged ones (`same`) included.
        resources: The resources that changed; unchanged ones are left out.
        seconds: Duration from leaving the queue.
    """

    stack: str
    kind: OperationKind
    failure: Failure | None
    changes: Mapping[str, int] = field(default_factory=dict)
    resources: tuple[ResourceChange, ...] = ()
    seconds: float

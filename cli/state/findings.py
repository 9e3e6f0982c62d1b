"""What can be wrong with a stack's state, and what would put it right. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from components import names
from components.desired import Owner
from components.errors import InvalidNameError
from reconciler.driver.deployment import Deployment, RecordedResource
from reconciler.driver.recovery import LockOwner

PROJECT = "decisionmodel"


class Code(StrEnum):
    """Kinds of findings. Closed; part of the JSON output."""

    UNREADABLE = "Unreadable"
    """The state does not parse or contradicts itself."""
    TAMPERED = "Tampered"
    """It records what no operation of the reconciler's writes, beyond single objects of another owner."""
    FOREIGN_RESOURCE = "ForeignResource"
    """It records an object of another owner: an operation could change or delete that."""
    PENDING_OPERATION = "PendingOperation"
    """It records what a killed process was doing."""
    STALE_LOCK = "StaleLock"
    """A process that does not lead any more holds a lock."""
    ORPHANED = "Orphaned"
    """Its DecisionModel does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        stack: Whose state.
        code: What kind it is.
        message: What was seen.
        urn: The resource concerned, when one is.
    """

    stack: str
    code: Code
    message: str
    urn: str | None = None


def described_model(stack: str) -> str:
    """Namespace and name in a stack's name, `<namespace>.<name>.<uid>`; a long namespace is cut in it."""
    return "/".join(stack.split(".")[:2])


def orphan(stack: str, live: frozenset[str] | None) -> list[Finding]:
    """Judge whether the stack is one of the `live` ones, which have a DecisionModel; None when nobody was asked."""
    if live is None or stack in live:
        return []
    message = f"DecisionModel {described_model(stack)} does not exist, or is another one of that name"
    return [Finding(stack=stack, code=Code.ORPHANED, message=message)]


def stale_locks(stack: str, locks: Sequence[LockOwner | None], leader: str | None) -> list[Finding]:
    """Judge locks: only the leader operates, so those of any other host are of dead processes.

    Args:
        stack: Whose locks.
        locks: Who wrote them; None for one that does not say.
        leader: Host that holds the Lease; None when nobody does, or nobody was asked.
    """
    return [
        Finding(stack=stack, code=Code.STALE_LOCK, message=_described_lock(lock))
        for lock in locks
        if lock is None or lock.host != leader
    ]


def _described_lock(lock: LockOwner | None) -> str:
    if lock is None:
        return "locked by nobody knows whom: the lock cannot be read"
    return f"locked by process {lock.pid} of {lock.host} since {lock.locked_at.isoformat()}"


def unsound(stack: str, deployment: Deployment) -> list[Finding]:
    """Judge what a state records."""
    return [
        *(
            Finding(stack=stack, code=Code.FOREIGN_RESOURCE, message=reason, urn=resource.urn)
            for resource in deployment.resources
            if (reason := _foreign(stack, resource))
        ),
        *(
            Finding(
                stack=stack,
                code=Code.PENDING_OPERATION,
                message=f"a process was killed while {pending.kind} it",
                urn=pending.urn,
            )
            for pending in deployment.pending
        ),
    ]


def _foreign(stack: str, resource: RecordedResource) -> str | None:
    """Why a resource is not of this stack's DecisionModel; None when it is, or is no object of a cluster."""
    if not resource.urn.startswith(f"urn:pulumi:{stack}::{PROJECT}::"):
        return "it is recorded under the name of another stack"
    if not resource.type.startswith("kubernetes:"):
        return None
    owner = _owner(resource.inputs)
    if owner is None:
        return "it has no DecisionModel as its controller"
    try:
        same = names.stack(owner) == stack
    except InvalidNameError:
        same = False
    return None if same else f"its controller is DecisionModel {owner.namespace}/{owner.name}, UID {owner.uid[:8]}"


def _owner(inputs: Mapping[str, Any]) -> Owner | None:
    match inputs.get("metadata"):
        case {"namespace": str(namespace), "ownerReferences": [*references]}:
            for reference in references:
                match reference:
                    case {"kind": "DecisionModel", "controller": True, "name": str(name), "uid": str(uid)}:
                        return Owner(namespace=namespace, name=name, uid=uid)
    return None

"""What one pass decided: a new status, what to say about it, and what the stack should contain.

The order in which the controller carries a decision out is part of the contract (spec section 5.4): status first,
Events and counters only after the status write held, then the stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from api.conditions import EventReason
from api.status import DecisionModelStatus, RevisionStatus


class RolloutResult(StrEnum):
    """Values of the `result` label of `decisionmodel_rollouts_total` (spec section 10.1)."""

    PROMOTED = "promoted"
    ROLLED_BACK = "rolled_back"
    FAILED = "failed"
    ROLLED_BACK_AFTER_PROMOTION = "rolled_back_after_promotion"
    STABLE_STOPPED = "stable_stopped"
    STABLE_RESTORED = "stable_restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventNote:
    """One Event about the DecisionModel; whether it is a warning follows from its reason."""

    reason: EventReason
    note: str
    occasion: str = ""
    """What makes it one event however often it is told; empty for those that may be lost with the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionPlan:
    """One revision the stack should hold: with its store unless that is withheld, and with what else is set."""

    revision: RevisionStatus
    prefetch: bool = True
    serve: bool = False
    stopped: bool = False
    """It is served by no Pod for now: its Deployment stays, with no replicas (strategy Recreate, an empty store)."""
    recovering: bool = False
    """The store was lost and is being refilled."""
    withheld: bool = False
    """The lost store is not created again yet: Pods are still there that would mount it before it is filled."""
    disruption_budget: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlan:
    """The revisions the stack should hold and the one its Service selects (none: no Service yet)."""

    revisions: tuple[RevisionPlan, ...] = ()
    selected: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreGrowth:
    """A revision's store and the larger size it should get."""

    revision: str
    size: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyPods:
    """So many model-ready Pods of a revision."""

    revision: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The outcome of one pass.

    `stack` is None where the cluster must stay as it is. `resolve` asks for the registry, `probe` names the revisions
    whose Pods are to be inspected, `discarded_jobs` the Jobs (UIDs) that are to be deleted and run again.
    `requeue_after` is in seconds (None: only a watch event brings the next pass).
    """

    status: DecisionModelStatus
    stack: StackPlan | None = None
    events: tuple[EventNote, ...] = ()
    results: tuple[RolloutResult, ...] = ()
    resolve: bool = False
    probe: tuple[str, ...] = ()
    discarded_jobs: tuple[str, ...] = ()
    growth: StoreGrowth | None = None
    evaluate: bool = False
    """The candidate is to be scored, or goes on being scored."""
    repair_manifest: bool = False
    """The candidate's manifest ConfigMap is to be made again, and its Job run again."""
    approval_consumed: bool = False
    """The promote annotation is to be removed."""
    rests_on: ReadyPods | None = None
    """What traffic moves on the strength of; to be confirmed before anything of the decision is carried out."""
    queued: bool = False
    """A rollout waits only for a slot: once admitted, the same facts decide otherwise."""
    requeue_after: float | None = None

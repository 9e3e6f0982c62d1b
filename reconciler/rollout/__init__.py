"""The rollout state machine: facts in, decision out.

`decide` is a pure function of a frozen `Facts` value: no I/O, no clock, no randomness. The controller gathers the
facts, persists the decision's status, and only then lets the Pulumi engine converge what the decision plans.
"""

from reconciler.rollout.decide import decide
from reconciler.rollout.decision import (
    Decision,
    EventNote,
    ReadyPods,
    RevisionPlan,
    RolloutResult,
    StackPlan,
    StoreGrowth,
)
from reconciler.rollout.facts import (
    ClaimFacts,
    EvaluationFacts,
    Facts,
    ManifestState,
    PrefetchFacts,
    PrefetchState,
    Refusal,
    ResolutionFailed,
    Resolved,
    RevisionFacts,
    RuntimeUpdate,
    ServingFacts,
    StoreState,
    TagMissing,
    Unrecorded,
)
from reconciler.rollout.obstacle import Obstacle

__all__ = [
    "ClaimFacts",
    "Decision",
    "EvaluationFacts",
    "EventNote",
    "Facts",
    "ManifestState",
    "Obstacle",
    "PrefetchFacts",
    "PrefetchState",
    "ReadyPods",
    "Refusal",
    "ResolutionFailed",
    "Resolved",
    "RevisionFacts",
    "RevisionPlan",
    "RolloutResult",
    "RuntimeUpdate",
    "ServingFacts",
    "StackPlan",
    "StoreGrowth",
    "StoreState",
    "TagMissing",
    "Unrecorded",
    "decide",
]

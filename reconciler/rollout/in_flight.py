"""What a pass plans, probes and says while a candidate is under way: both revisions are kept as they are."""

from __future__ import annotations

from api.conditions import ConditionType, Phase, Reason
from api.status import RevisionStatus
from reconciler.rollout.cache_guard import grow_store
from reconciler.rollout.decision import Decision, RevisionPlan
from reconciler.rollout.draft import Draft
from reconciler.rollout.stable import count_replicas, describe_ready, describe_refusals, stack_plan

_OBSTACLES = {Phase.EVALUATING: Reason.EVALUATION_RUNNING, Phase.AWAITING_PROMOTION: Reason.PROMOTION_PENDING}


def keep_going(  # noqa: PLR0913 - what is under way, and how it goes on
    draft: Draft,
    candidate: RevisionStatus,
    obstacle: Reason,
    plan: tuple[RevisionPlan, ...],
    requeue_after: float,
    *,
    evaluate: bool = False,
) -> Decision:
    """Go on with `candidate` beside the stable, which goes on serving; `obstacle` is why a first one is not Ready."""
    probe: tuple[str, ...] = (candidate.hash,)
    if draft.stable is None:
        count_replicas(draft, candidate)
        draft.condition(ConditionType.READY, obstacle, f"rolling out {candidate.model}", holds=False)
    else:
        count_replicas(draft, draft.stable)
        describe_ready(draft)
        grow_store(draft)  # what it cannot follow, the candidate does
        probe = (draft.stable.hash, candidate.hash)
    describe_refusals(draft)
    return draft.decided(stack=stack_plan(draft, *plan), probe=probe, evaluate=evaluate, requeue_after=requeue_after)


def hold(  # noqa: PLR0913 - what is held, and how long
    draft: Draft,
    candidate: RevisionStatus,
    plan: RevisionPlan,
    phase: Phase,
    requeue_after: float,
    *,
    evaluate: bool = False,
) -> Decision:
    """Keep a candidate whose Pods are all ready waiting in `phase`."""
    draft.enter(phase)
    draft.condition(ConditionType.MODEL_READY, Reason.MODEL_READY, "every Pod of the candidate is ready", holds=True)
    return keep_going(draft, candidate, _OBSTACLES[phase], (plan,), requeue_after, evaluate=evaluate)

"""What a pass plans, probes and says while a candidate is under way: both revisions are kept as they are."""

from __future__ import annotations

from api.conditions import ConditionType, Phase, Reason
from api.status import RevisionStatus
from reconciler.rollout.cache_guard import grow_store
from reconciler.rollout.decision import Decision, RevisionPlan
from reconciler.rollout.draft import Draft
from reconciler.rollout.obstacle import Cause
from reconciler.rollout.stable import count_replicas, describe_ready, describe_refusals, stack_plan

_WAITS = {Phase.EVALUATING: Reason.EVALUATION_RUNNING, Phase.AWAITING_PROMOTION: Reason.PROMOTION_PENDING}


def keep_going(  # noqa: PLR0913 - what is under way, and how it goes on
    draft: Draft,
    candidate: RevisionStatus,
    reason: Reason,
    plan: tuple[RevisionPlan, ...],
    requeue_after: float,
    *,
    evaluate: bool = False,
    cause: Cause | None = None,
) -> Decision:
    """Go on with `candidate` beside the stable, which goes on serving; `reason` is why a first one is not Ready.

    What stands in its way is the better reason, and is told beside a stable as well.
    """
    probe: tuple[str, ...] = (candidate.hash,)
    if draft.stable is None:
        count_replicas(draft, candidate)
        told = cause or Cause(reason=reason, message=f"rolling out {candidate.model}")
        draft.condition(ConditionType.READY, told.reason, told.message, holds=False)
    else:
        count_replicas(draft, draft.stable)
        describe_ready(draft, candidate=cause)
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
    return keep_going(draft, candidate, _WAITS[phase], (plan,), requeue_after, evaluate=evaluate)

"""A candidate whose Pods are ready, but which may not serve yet: both revisions are kept as they are."""

from __future__ import annotations

from api.conditions import ConditionType, Phase, Reason
from api.status import RevisionStatus
from reconciler.rollout.decision import Decision, RevisionPlan
from reconciler.rollout.draft import Draft
from reconciler.rollout.stable import count_replicas, describe_ready, describe_refusals, stack_plan


def hold(  # noqa: PLR0913 - what is held, and how long
    draft: Draft,
    candidate: RevisionStatus,
    plan: RevisionPlan,
    phase: Phase,
    requeue_after: float,
    *,
    evaluate: bool = False,
) -> Decision:
    """Keep `candidate` waiting in `phase` beside the stable, which goes on serving."""
    draft.enter(phase)
    draft.condition(ConditionType.MODEL_READY, Reason.MODEL_READY, "every Pod of the candidate is ready", holds=True)
    probe: tuple[str, ...] = (candidate.hash,)
    if draft.stable is None:
        count_replicas(draft, candidate)
        draft.condition(ConditionType.READY, _obstacle(phase), f"rolling out {candidate.model}", holds=False)
    else:
        count_replicas(draft, draft.stable)
        describe_ready(draft)
        probe = (draft.stable.hash, candidate.hash)
    describe_refusals(draft)
    return draft.decided(stack=stack_plan(draft, plan), probe=probe, evaluate=evaluate, requeue_after=requeue_after)


def _obstacle(phase: Phase) -> Reason:
    return Reason.EVALUATION_RUNNING if phase is Phase.EVALUATING else Reason.PROMOTION_PENDING

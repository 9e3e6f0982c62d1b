"""A rollout that has to wait because as many as allowed are under way (spec section 5.11).

The gate stands before anything is allocated. Who may pass it, the controller knows: it looks at all DecisionModels.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from api.conditions import ConditionType, Phase, Reason, find_condition
from api.status import RevisionStatus
from reconciler.rollout import approval, timing
from reconciler.rollout.decision import Decision
from reconciler.rollout.draft import Draft
from reconciler.rollout.stable import describe_pods, upkeep


def must_wait(draft: Draft, wanted: RevisionStatus) -> bool:
    """Whether the rollout of `wanted` may not begin yet.

    One under way, or in the window of its predecessor, has its slot already. A candidate that waits for a person has
    given its slot back, so what follows it needs one again.
    """
    facts = draft.facts
    if facts.rollout_limit == 0 or facts.admitted:
        return False
    if draft.candidate is not None:
        return draft.candidate.hash != wanted.hash and approval.is_asked_for(draft.status)
    return draft.status.previous_revision is None or draft.spec.rollout.stabilization_window == timedelta(0)


def is_waiting(draft: Draft) -> bool:
    """Whether the model stood in the line when it was last looked at."""
    ready = find_condition(draft.status.conditions, ConditionType.READY)
    queued = ready is not None and ready.reason == Reason.ROLLOUT_QUEUED
    return queued and draft.status.phase is Phase.PENDING and draft.facts.rollout_limit > 0


def wait(draft: Draft) -> Decision:
    """Wait for a slot: nothing is allocated, and what serves is maintained."""
    draft.enter(Phase.PENDING)
    if draft.stable is not None:
        describe_pods(draft, draft.stable)
    message = f"waiting for a rollout slot (max {draft.facts.rollout_limit} concurrent rollouts)"
    draft.condition(ConditionType.READY, Reason.ROLLOUT_QUEUED, message, holds=False)
    return replace(upkeep(draft), queued=True, requeue_after=timing.RECHECK_QUEUED)

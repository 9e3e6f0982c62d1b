"""The watch over a freshly promoted revision, and the way back (spec section 5.9)."""

from __future__ import annotations

import math
from datetime import timedelta

from api.conditions import ConditionType, EventReason, Reason, find_condition
from api.rollout import Strategy
from api.status import PreviousRevision, RevisionStatus
from reconciler.rollout import recreate_rollback, timing
from reconciler.rollout.decision import Decision, RolloutResult
from reconciler.rollout.draft import Draft
from reconciler.rollout.facts import ServingFacts
from reconciler.rollout.rejection import failed_record, hold_rejected
from reconciler.rollout.retention import traffic_settled, window_end


def watch(draft: Draft) -> Decision | None:
    """Judge the promoted revision; return a decision only when it has to be rolled back."""
    stable, previous = draft.stable, draft.status.previous_revision
    if stable is None or previous is None:
        draft.forget(ConditionType.STABILIZING)
        return None
    if not traffic_settled(draft):
        return None
    window = draft.spec.rollout.stabilization_window
    over = draft.facts.now >= window_end(previous, window)
    if window == timedelta(0):
        if over:
            draft.update(previous_revision=None)
        return None
    return _watch_window(draft, stable, previous, over=over)


def _watch_window(draft: Draft, stable: RevisionStatus, previous: PreviousRevision, *, over: bool) -> Decision | None:
    serving = draft.facts.of(stable).serving
    if cause := _immediate_cause(serving):
        return _roll_back(draft, stable, previous, cause)
    if serving.rolling:
        draft.condition(ConditionType.STABILIZING, Reason.STABLE_ROLLING, "Pods are being replaced", holds=True)
        return None
    needed = max(1, math.ceil(draft.spec.replicas / 2))
    if serving.model_ready < needed:
        message = f"fewer than {needed} of {draft.spec.replicas} Pods model-ready after promotion"
        draft.condition(ConditionType.STABILIZING, Reason.POST_PROMOTION_UNHEALTHY, message, holds=False)
        if over or _seconds_unhealthy(draft) >= timing.UNHEALTHY_DEBOUNCE:
            return _roll_back(draft, stable, previous, message)
        return None
    if over:
        draft.update(previous_revision=None)
        draft.forget(ConditionType.STABILIZING)
        draft.event(EventReason.STABILIZED, f"revision {stable.hash} stayed healthy after its promotion")
        return None
    draft.condition(
        ConditionType.STABILIZING, Reason.STABILIZING, f"revision {previous.revision.hash} is kept", holds=True
    )
    return None


def _immediate_cause(serving: ServingFacts) -> str | None:
    if serving.mismatched_gates:
        return f"a Pod reports {serving.mismatched_gates[0]}"
    if serving.crash_looping:
        return "a container is in CrashLoopBackOff"
    if serving.progress_deadline_exceeded:
        return "the Deployment exceeded its progress deadline"
    return None


def _seconds_unhealthy(draft: Draft) -> float:
    condition = find_condition(draft.status.conditions, ConditionType.STABILIZING)
    if condition is None or condition.last_transition_time is None:
        return 0.0
    return (draft.facts.now - condition.last_transition_time).total_seconds()


def _roll_back(draft: Draft, stable: RevisionStatus, previous: PreviousRevision, cause: str) -> Decision:
    reason = Reason.POST_PROMOTION_UNHEALTHY
    draft.update(candidate_revision=None, store_recovery=None)
    draft.forget(ConditionType.STABILIZING)
    draft.condition(ConditionType.DEGRADED, reason, cause, holds=True)
    draft.event(
        EventReason.ROLLED_BACK_AFTER_PROMOTION,
        f"{stable.model} (revision {stable.hash}): {cause}; back to revision {previous.revision.hash}",
    )
    draft.count(RolloutResult.ROLLED_BACK_AFTER_PROMOTION)
    if previous.strategy is Strategy.RECREATE:
        return recreate_rollback.begin(draft, stable, previous)
    draft.update(
        stable_revision=previous.revision,
        previous_revision=None,
        failed_revision=failed_record(draft, stable, reason, cause),
    )
    return hold_rejected(draft)

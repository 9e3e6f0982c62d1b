"""The watch over a freshly promoted revision, and the way back (spec section 5.9).

Only what speaks against the revision itself takes it back for good: wrong bytes, a wrong device, a crash loop, Pods
that run without their proof. Pods that others took away, that wait for a node or that start again are no fault of it.
While it has none, its predecessor stands in for it where that still has Pods, and traffic returns with the Pods.
"""

from __future__ import annotations

from datetime import timedelta

from api.conditions import ConditionType, EventReason, Reason, find_condition
from api.rollout import Strategy
from api.status import PreviousRevision, RevisionStatus
from reconciler.rollout import recreate_rollback, timing
from reconciler.rollout.decision import Decision, RolloutResult
from reconciler.rollout.draft import Draft
from reconciler.rollout.facts import ServingFacts
from reconciler.rollout.rejection import failed_record, hold_rejected
from reconciler.rollout.retention import has_no_traffic, needed_pods, stand_in, traffic_settled, window_end


def watch(draft: Draft) -> Decision | None:
    """Judge the promoted revision; return a decision only when it has to be rolled back."""
    stable, previous = draft.stable, draft.status.previous_revision
    if stable is None or previous is None:
        draft.forget(ConditionType.STABILIZING)
        return None
    if not traffic_settled(draft) and not has_no_traffic(draft, stable):
        return None
    window = draft.spec.rollout.stabilization_window
    over = traffic_settled(draft) and draft.facts.now >= window_end(previous, window)
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
    needed = needed_pods(draft, previous)
    if serving.model_ready >= needed:
        _stay(draft, stable, previous, over=over)
        return None
    if not serving.exists or serving.model_ready + serving.away >= needed:
        _wait_for_pods(draft, stable, needed)
        return None
    message = f"fewer than {needed} of {draft.spec.replicas} Pods model-ready after promotion"
    draft.condition(ConditionType.STABILIZING, Reason.POST_PROMOTION_UNHEALTHY, message, holds=False)
    if over or _seconds_unhealthy(draft) >= timing.UNHEALTHY_DEBOUNCE:
        return _roll_back(draft, stable, previous, message)
    return None


def _stay(draft: Draft, stable: RevisionStatus, previous: PreviousRevision, *, over: bool) -> None:
    """Go on with a promoted revision that is healthy, and let go of its predecessor at the end."""
    if over:
        draft.update(previous_revision=None)
        draft.forget(ConditionType.STABILIZING)
        draft.event(EventReason.STABILIZED, f"revision {stable.hash} stayed healthy after its promotion")
        return
    ready = draft.facts.of(stable).serving.model_ready
    if ready > previous.proved_replicas:
        draft.update(previous_revision=previous.model_copy(update={"proved_replicas": ready}))
    before = find_condition(draft.status.conditions, ConditionType.STABILIZING)
    if before is not None and before.reason == Reason.SERVED_BY_PREVIOUS:
        draft.event(EventReason.STABLE_RESTORED, f"revision {stable.hash} has its Pods again and takes traffic back")
    draft.condition(
        ConditionType.STABILIZING, Reason.STABILIZING, f"revision {previous.revision.hash} is kept", holds=True
    )


def _wait_for_pods(draft: Draft, stable: RevisionStatus, needed: int) -> None:
    """Wait for Pods that are away through no fault of the revision, however long that takes, and say who serves."""
    serving = draft.facts.of(stable).serving
    message = (
        f"{serving.model_ready} of {needed} Pods needed are model-ready; the others were taken away, wait for a node"
        " or start, which speaks not against the revision"
    )
    previous = stand_in(draft)
    if previous is None:
        draft.condition(ConditionType.STABILIZING, Reason.WAITING_FOR_PODS, message, holds=True)
        return
    message = f"revision {previous.hash} serves meanwhile: {message}"
    if draft.condition(ConditionType.STABILIZING, Reason.SERVED_BY_PREVIOUS, message, holds=True):
        draft.event(EventReason.SERVED_BY_PREVIOUS, f"revision {stable.hash} has no Pods; {message}")


def step_back(draft: Draft) -> bool:
    """Give up a promoted revision that is asked for no more while its predecessor stands in for it: that stays.

    Returns:
        Whether it was given up; not before traffic has left it.
    """
    stable, previous = draft.stable, stand_in(draft)
    if stable is None or previous is None or not has_no_traffic(draft, stable):
        return False
    draft.update(stable_revision=previous.revision, previous_revision=None)
    draft.forget(ConditionType.STABILIZING)
    draft.event(EventReason.CANDIDATE_SUPERSEDED, f"revision {stable.hash} ({stable.model}) is asked for no more")
    return True


def _immediate_cause(serving: ServingFacts) -> str | None:
    if serving.mismatched_gates:
        return f"a Pod reports {serving.mismatched_gates[0]}"
    if serving.crash_looping:
        return "a container is in CrashLoopBackOff"
    if serving.progress_deadline_exceeded and not serving.held_up:
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

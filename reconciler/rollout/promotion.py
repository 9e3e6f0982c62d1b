"""The moment a candidate becomes the stable revision (spec sections 5.6 and 5.12)."""

from __future__ import annotations

from datetime import datetime

from api.conditions import ConditionType, EventReason, Phase, Reason, find_condition
from api.rollout import Promotion, Strategy
from api.status import DecisionModelStatus, PreviousRevision, RevisionStatus
from reconciler.rollout import approval, evaluating, timing
from reconciler.rollout.decision import Decision, EventNote, ReadyPods, RevisionPlan, RolloutResult
from reconciler.rollout.draft import Draft, short
from reconciler.rollout.in_flight import hold
from reconciler.rollout.recreate import is_stable_stopped
from reconciler.rollout.stable import count_replicas, describe_ready, phase_of_proved, stack_plan


def settle(draft: Draft, candidate: RevisionStatus, plan: RevisionPlan) -> Decision:
    """Decide about a candidate whose Pods are all model-ready: promote it, park it, or refuse it."""
    if (waiting := evaluating.gate(draft, candidate, plan)) is not None:
        return waiting
    first = draft.stable is None
    if draft.spec.rollout.effective_promotion is Promotion.MANUAL and not first:
        return _await_approval(draft, candidate, plan)
    return promote(draft, candidate)


def promote(draft: Draft, candidate: RevisionStatus) -> Decision:
    """Make `candidate` the stable in the status. The Service follows once this is persisted, never before."""
    old = draft.stable
    candidate = candidate.model_copy(update={"precision": draft.facts.of(candidate).serving.precision})
    strategy = Strategy.RECREATE if is_stable_stopped(draft) else Strategy.BLUE_GREEN
    previous = (
        None
        if old is None
        else PreviousRevision(
            hash=old.hash,
            promoted_at=draft.facts.now,
            revision=old,
            strategy=strategy,
            proved_replicas=draft.spec.replicas,
        )
    )
    draft.update(
        stable_revision=candidate,
        candidate_revision=None,
        failed_revision=None,
        store_recovery=None,
        stable_stopped_for_revision="",
        previous_revision=previous,
        last_promotion_time=draft.facts.now,
    )
    count_replicas(draft, candidate)
    note = f"promoted {candidate.model}@sha256:{short(candidate.digest)} (revision {candidate.hash})"
    note += _measured(draft, candidate)
    draft.enter(phase_of_proved(draft))
    draft.condition(ConditionType.PROMOTED, Reason.PROMOTED, note, holds=True)
    draft.condition(ConditionType.MODEL_READY, Reason.MODEL_READY, "every Pod is model-ready", holds=True)
    draft.forget(ConditionType.DEGRADED)
    describe_ready(draft)
    draft.event(EventReason.PROMOTED, note, occasion=draft.facts.now.isoformat())
    draft.count(RolloutResult.PROMOTED)
    stack = stack_plan(draft)
    draft.rest_on(ReadyPods(revision=candidate.hash, count=draft.spec.replicas))
    return draft.decided(stack=stack, probe=(candidate.hash,), requeue_after=timing.PROMOTION_GRACE)


def _measured(draft: Draft, candidate: RevisionStatus) -> str:
    evaluation = draft.status.evaluation
    if draft.spec.rollout.evaluation is None or evaluation is None or evaluation.revision != candidate.hash:
        return ""
    return f" ({evaluating.measured(evaluation)})"


def recent_promotion(status: DecisionModelStatus, now: datetime) -> EventNote | None:
    """Return the Event of a promotion so recent that the process which decided it may have ended before telling.

    Telling it again is harmless: its occasion makes it the same Event.
    """
    promoted, at = find_condition(status.conditions, ConditionType.PROMOTED), status.last_promotion_time
    told = promoted is not None and promoted.status == "True" and promoted.reason == Reason.PROMOTED
    if promoted is None or not told or at is None or now - at > timing.RETELLING:
        return None
    return EventNote(reason=EventReason.PROMOTED, note=promoted.message, occasion=at.isoformat())


def _await_approval(draft: Draft, candidate: RevisionStatus, plan: RevisionPlan) -> Decision:
    if approval.is_approved(draft, candidate):
        return promote(draft, candidate)
    approval.ask(draft, candidate)
    return hold(draft, candidate, plan, Phase.AWAITING_PROMOTION, timing.RECHECK_HELD)

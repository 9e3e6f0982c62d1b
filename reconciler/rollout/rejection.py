"""Rejection of a revision, and the guard that keeps a rejected one from being tried again (spec section 5.7)."""

from __future__ import annotations

from api.conditions import ConditionType, EventReason, Phase, Reason
from api.status import FailedRevisionStatus, RevisionStatus
from reconciler.rollout import approval, timing
from reconciler.rollout.decision import Decision, RolloutResult
from reconciler.rollout.draft import Draft
from reconciler.rollout.stable import count_none, describe_ready, describe_replicas, stack_plan, upkeep


def failed_record(draft: Draft, revision: RevisionStatus, reason: Reason, message: str) -> FailedRevisionStatus:
    """Return the record of a revision that was rejected in this pass."""
    fields = dict(revision)
    return FailedRevisionStatus(**fields, reason=reason, message=message, failed_at=draft.facts.now)


def reject(draft: Draft, revision: RevisionStatus, reason: Reason, message: str) -> Decision:
    """Record that `revision` failed. The stable keeps serving; the failed revision's objects go after the write."""
    draft.update(candidate_revision=None, failed_revision=failed_record(draft, revision, reason, message))
    draft.condition(ConditionType.DEGRADED, reason, message, holds=True)
    approval.withdraw(draft)
    subject = f"{revision.model} (revision {revision.hash}): {reason}: {message}"
    if draft.stable is None:
        draft.event(EventReason.FAILED, subject)
        draft.count(RolloutResult.FAILED)
    else:
        draft.event(EventReason.ROLLED_BACK, f"{subject}; revision {draft.stable.hash} keeps serving")
        draft.count(RolloutResult.ROLLED_BACK)
    return hold_rejected(draft)


def hold_rejected(draft: Draft) -> Decision:
    """Stay on the stable (or stay failed) while the spec still asks for the rejected revision. No retry by itself."""
    failed = draft.status.failed_revision
    if failed is None:
        raise ValueError("no revision was rejected")
    draft.update(candidate_revision=None)
    draft.forget(ConditionType.CACHED, ConditionType.EVALUATED)
    reason = Reason(failed.reason) if failed.reason else Reason.REVISION_FAILED
    draft.condition(ConditionType.DEGRADED, reason, failed.message, holds=True)
    if draft.stable is None:
        draft.enter(Phase.FAILED)
        draft.condition(ConditionType.READY, reason, failed.message, holds=False)
        draft.forget(ConditionType.MODEL_READY)
        count_none(draft)
        return draft.decided(stack=stack_plan(draft), requeue_after=timing.RECHECK_READY)
    ready, _ = describe_replicas(draft, draft.stable)
    unrestored = reason is Reason.RECREATE_ROLLBACK_TIMEOUT and ready == 0
    draft.enter(Phase.FAILED if unrestored else Phase.ROLLED_BACK)
    describe_ready(draft, reason=Reason.CANDIDATE_REJECTED)
    return upkeep(draft)

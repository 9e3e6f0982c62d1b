"""The staged rollback of a Recreate rollout: there is room for one revision, so one goes before the other comes.

The failed revision's Pods stop, then those of its predecessor start, and only the first of these that is model-ready
moves the traffic (spec section 5.9). Each stage is recorded before it is carried out. A predecessor whose store is gone
becomes ready only once that is refilled, which is done for the revision that serves alone: it is made that at once.
"""

from __future__ import annotations

from api.conditions import ConditionType, EventReason, Phase, Reason, find_condition
from api.status import PreviousRevision, RecreateRollback, RevisionStatus
from reconciler.rollout import timing
from reconciler.rollout.decision import Decision
from reconciler.rollout.draft import Draft
from reconciler.rollout.obstacle import Cause, explained
from reconciler.rollout.recreate import announce_restored
from reconciler.rollout.rejection import failed_record, hold_rejected
from reconciler.rollout.stable import describe_replicas, stack_plan
from reconciler.rollout.store_recovery import is_empty


def begin(draft: Draft, failed: RevisionStatus, previous: PreviousRevision) -> Decision:
    """Start going back from `failed` to the revision that was stopped for it."""
    rollback = RecreateRollback(failed=failed, target=previous.revision, started_at=draft.facts.now)
    draft.update(recreate_rollback=rollback, previous_revision=None)
    return _stage(draft, rollback)


def advance(draft: Draft) -> Decision | None:
    """Take a rollback in progress one stage further; None when there is none, or only the traffic has yet to move."""
    rollback = draft.status.recreate_rollback
    if rollback is None:
        return None
    if draft.stable is not None and draft.stable.hash == rollback.target.hash:
        if draft.facts.service_selects in (None, rollback.target.hash):
            draft.update(recreate_rollback=None)
        return None
    return _stage(draft, rollback)


def _stage(draft: Draft, rollback: RecreateRollback) -> Decision:
    target = draft.facts.of(rollback.target)
    if target.serving.model_ready > 0:
        announce_restored(draft, rollback.target)
        return _go_back(draft, rollback)
    if is_empty(target):
        # Only the store of what is recorded as serving is refilled: until then there is nothing to wait for.
        return _go_back(draft, rollback)
    if draft.facts.now - rollback.started_at > draft.spec.rollout.timeouts.starting_timeout:
        return _give_up(draft, rollback)
    draft.enter(Phase.DEGRADED)
    message = f"revision {rollback.target.hash} is started again in place of {rollback.failed.hash}"
    told = explained(Cause(reason=Reason.POST_PROMOTION_UNHEALTHY, message=message), target.serving.obstacle)
    draft.condition(ConditionType.READY, told.reason, told.message, holds=False)
    describe_replicas(draft, rollback.failed)
    probe = (rollback.target.hash,)
    return draft.decided(stack=stack_plan(draft), probe=probe, requeue_after=timing.RECHECK_PROGRESS)


def _go_back(draft: Draft, rollback: RecreateRollback) -> Decision:
    degraded = find_condition(draft.status.conditions, ConditionType.DEGRADED)
    cause = degraded.message if degraded is not None else ""
    failed = failed_record(draft, rollback.failed, Reason.POST_PROMOTION_UNHEALTHY, cause)
    draft.update(stable_revision=rollback.target, failed_revision=failed)
    return hold_rejected(draft)


def _give_up(draft: Draft, rollback: RecreateRollback) -> Decision:
    """Stop waiting, not trying: the old revision stays declared and serves as soon as it can."""
    late = f"revision {rollback.target.hash} was not model-ready again when the starting deadline passed"
    obstacle = draft.facts.of(rollback.target).serving.obstacle
    message = explained(Cause(reason=Reason.RECREATE_ROLLBACK_TIMEOUT, message=late), obstacle).message
    failed = failed_record(draft, rollback.failed, Reason.RECREATE_ROLLBACK_TIMEOUT, message)
    draft.update(stable_revision=rollback.target, failed_revision=failed)
    draft.event(EventReason.RECREATE_ROLLBACK_TIMEOUT, message)
    return hold_rejected(draft)

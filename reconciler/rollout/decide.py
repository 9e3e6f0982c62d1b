"""One pass over one DecisionModel, in the order of spec section 5.4."""

from __future__ import annotations

from api.conditions import ConditionType, EventReason, Phase, Reason
from api.keys import RETRY_ANNOTATION
from api.status import RevisionStatus
from reconciler.rollout import approval, candidate, recreate_rollback, stabilization, timing
from reconciler.rollout.decision import Decision
from reconciler.rollout.draft import Draft
from reconciler.rollout.facts import Facts, Refusal, Resolution, ResolutionFailed, Resolved, TagMissing
from reconciler.rollout.recreate import tell_restored
from reconciler.rollout.rejection import hold_rejected
from reconciler.rollout.retention import traffic_settled
from reconciler.rollout.stable import describe_refusals, maintain, stack_plan


def decide(facts: Facts) -> Decision:
    """Decide what `facts` amount to. Pure: equal facts give equal decisions."""
    draft = Draft(facts)
    approval.consume(draft)
    tell_restored(draft)
    if facts.conflict is not None:
        return _conflict(draft, facts.conflict)
    if facts.preflight is not None:
        return _refuse(draft, facts.preflight)
    _consume_retry(draft)
    if rollback := recreate_rollback.advance(draft):
        return rollback
    return _follow(draft, facts.resolution)


def _follow(draft: Draft, resolution: Resolution) -> Decision:
    match resolution:
        case None:
            return _await_resolution(draft)
        case TagMissing(message=message):
            return _unresolved(draft, Refusal(reason=Reason.MODEL_NOT_FOUND, message=message), Phase.FAILED)
        case ResolutionFailed(message=message):
            phase = draft.status.phase or Phase.PENDING
            refusal = Refusal(reason=Reason.RESOLVE_FAILED, message=message)
            return _unresolved(draft, refusal, Phase.RESOLVING if phase is Phase.PENDING else phase)
        case Resolved(revision=revision):
            return _resolved(draft, revision)


def _conflict(draft: Draft, message: str) -> Decision:
    if draft.condition(ConditionType.READY, Reason.RESOURCE_CONFLICT, message, holds=False):
        draft.event(EventReason.RESOURCE_CONFLICT, message)
    draft.condition(ConditionType.DEGRADED, Reason.RESOURCE_CONFLICT, message, holds=True)
    if not draft.status.phase:
        draft.enter(Phase.PENDING)
    return draft.decided(stack=None, requeue_after=timing.RECHECK_CONFLICT)


def _refuse(draft: Draft, refusal: Refusal) -> Decision:
    """Security refusals are final until the spec changes; they never touch what serves."""
    candidate.supersede(draft)
    if draft.condition(ConditionType.RESOLVED, refusal.reason, refusal.message, holds=False) and draft.stable:
        draft.event(EventReason.CANDIDATE_REJECTED, f"{refusal.reason}: {refusal.message}")
    if draft.stable is not None:
        return _keep(draft)
    draft.enter(Phase.FAILED)
    draft.condition(ConditionType.READY, refusal.reason, refusal.message, holds=False)
    return draft.decided(stack=stack_plan(draft))


def _consume_retry(draft: Draft) -> None:
    """A retry token clears a failed revision and an exhausted recovery exactly once (spec section 5.7)."""
    token = draft.facts.model.metadata.annotations.get(RETRY_ANNOTATION)
    if not token or token == draft.status.last_retry_token:
        return
    failed, recovery = draft.status.failed_revision, draft.status.store_recovery
    if failed is not None and failed.hash == draft.facts.service_selects:
        # Until its traffic has moved it is kept, and known; the token counts after that.
        return
    draft.update(last_retry_token=token)
    exhausted = recovery is not None and recovery.exhausted
    if failed is None and not exhausted:
        draft.event(EventReason.RETRY_NOOP, "there is nothing failed to retry")
        return
    draft.update(failed_revision=None, store_recovery=None if exhausted else recovery)
    draft.forget(ConditionType.DEGRADED)


def _keep(draft: Draft, *, resolve: bool = False) -> Decision:
    """Keep what serves, whatever the spec asks for: a promotion's window goes on, and ends as it would have."""
    return stabilization.watch(draft) or maintain(draft, resolve=resolve)


def _await_resolution(draft: Draft) -> Decision:
    """The registry has not answered yet: nothing moves, what serves is kept."""
    if draft.stable is not None:
        return _keep(draft, resolve=True)
    if draft.facts.refusals:
        return _misconfigured(draft)
    if not draft.status.phase:
        draft.enter(Phase.PENDING)
        draft.condition(ConditionType.READY, Reason.RESOLVING, "asking the registry for the tag", holds=False)
    return draft.decided(stack=None, resolve=True)


def _unresolved(draft: Draft, refusal: Refusal, phase: Phase) -> Decision:
    candidate.supersede(draft)
    if draft.condition(ConditionType.RESOLVED, refusal.reason, refusal.message, holds=False) and draft.stable:
        draft.event(EventReason.CANDIDATE_REJECTED, f"{refusal.reason}: {refusal.message}")
    if draft.stable is not None:
        return _keep(draft, resolve=True)
    draft.enter(phase)
    draft.condition(ConditionType.READY, refusal.reason, refusal.message, holds=False)
    # Nothing serves, and the candidate that was under way is abandoned: what is left of it goes.
    return draft.decided(stack=stack_plan(draft), resolve=True)


def _resolved(draft: Draft, wanted: RevisionStatus) -> Decision:
    draft.condition(ConditionType.RESOLVED, Reason.RESOLVED, f"{wanted.model} is sha256:{wanted.digest}", holds=True)
    _announce_runtime_update(draft)
    serving = draft.stable is not None
    if draft.facts.refusals and not serving:
        return _misconfigured(draft)
    if serving and (rollback := stabilization.watch(draft)):
        return rollback
    if draft.stable is not None and wanted.hash == draft.stable.hash:
        return _stable_path(draft, draft.stable, wanted)
    failed = draft.status.failed_revision
    if failed is not None and failed.hash == wanted.hash:
        return hold_rejected(draft)
    if draft.facts.refusals or not traffic_settled(draft):
        return maintain(draft)
    return candidate.advance(draft, wanted)


def _misconfigured(draft: Draft) -> Decision:
    first = draft.facts.refusals[0]
    draft.enter(Phase.DEGRADED)
    draft.condition(ConditionType.READY, first.reason, first.message, holds=False)
    describe_refusals(draft)
    return draft.decided(stack=None, requeue_after=timing.RECHECK_REFUSED)


def _stable_path(draft: Draft, stable: RevisionStatus, wanted: RevisionStatus) -> Decision:
    candidate.supersede(draft)
    if not stable.placement:
        # A record of an earlier version, recognised as what is wanted: it is completed, and nothing rolls out.
        draft.update(stable_revision=wanted)
    failed = draft.status.failed_revision
    if failed is not None and failed.hash != draft.facts.service_selects:
        # Until its traffic has moved it is kept, and known.
        draft.update(failed_revision=None)
    return maintain(draft)


def _announce_runtime_update(draft: Draft) -> None:
    update = draft.facts.runtime_update
    if update is None:
        draft.forget(ConditionType.RUNTIME_UPDATE_AVAILABLE)
        return
    message = f"runtime {update.running} runs, {update.available} is available: set spec.runtimeVersion to adopt it"
    reason = Reason.RUNTIME_UPDATE_AVAILABLE
    if draft.condition(ConditionType.RUNTIME_UPDATE_AVAILABLE, reason, message, holds=True):
        draft.event(EventReason.RUNTIME_UPDATE_AVAILABLE, message)

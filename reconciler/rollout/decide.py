"""One pass over one DecisionModel, in the order of spec section 5.4."""

from __future__ import annotations

from dataclasses import replace

from api.conditions import ConditionType, EventReason, Phase, Reason
from api.status import RevisionStatus
from reconciler.rollout import (
    approval,
    candidate,
    queue,
    recreate_rollback,
    retry,
    stabilization,
    status_recovery,
    timing,
)
from reconciler.rollout.decision import Decision
from reconciler.rollout.draft import Draft
from reconciler.rollout.facts import Facts, Refusal, Resolution, ResolutionFailed, Resolved, TagMissing
from reconciler.rollout.recreate import is_stable_stopped, tell_restored
from reconciler.rollout.rejection import hold_rejected
from reconciler.rollout.retention import stand_in, traffic_settled
from reconciler.rollout.stable import count_none, count_replicas, describe_refusals, maintain, stack_plan
from reconciler.rollout.verified_store import with_filled


def decide(facts: Facts) -> Decision:
    """Decide what `facts` amount to. Pure: equal facts give equal decisions."""
    decision = _decide(facts)
    return replace(decision, status=with_filled(decision.status, facts))


def _decide(facts: Facts) -> Decision:
    draft = Draft(facts)
    if recovery := status_recovery.advance(draft):
        return recovery
    approval.consume(draft)
    tell_restored(draft)
    if facts.conflict is not None:
        return _conflict(draft, facts.conflict)
    if facts.preflight is None:
        retry.consume(draft)
    if rollback := recreate_rollback.advance(draft):
        return rollback
    if facts.preflight is not None:
        return _refuse(draft, facts.preflight)
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
    probe: tuple[str, ...] = ()
    if draft.stable is not None:  # its Pods come and go all the same, and each needs its proof
        count_replicas(draft, draft.stable)
        probe = (draft.stable.hash,)
    return draft.decided(stack=None, probe=probe, requeue_after=timing.RECHECK_CONFLICT)


def _refuse(draft: Draft, refusal: Refusal) -> Decision:
    """Security refusals are final until the spec changes; they never touch what serves."""
    candidate.supersede(draft)
    if draft.condition(ConditionType.RESOLVED, refusal.reason, refusal.message, holds=False) and draft.stable:
        draft.event(EventReason.CANDIDATE_REJECTED, f"{refusal.reason}: {refusal.message}")
    if draft.stable is not None:
        return _keep(draft)
    return _without_revision(draft, refusal, Phase.FAILED)


def _keep(draft: Draft, *, resolve: bool = False) -> Decision:
    """Keep what serves, whatever the spec asks for: a promotion's window goes on, and ends as it would have."""
    return stabilization.watch(draft) or maintain(draft, resolve=resolve)


def _without_revision(draft: Draft, refusal: Refusal, phase: Phase, *, resolve: bool = False) -> Decision:
    """Nothing serves, and the candidate that was under way is abandoned: what is left of it goes."""
    draft.enter(phase)
    draft.condition(ConditionType.READY, refusal.reason, refusal.message, holds=False)
    count_none(draft)
    return draft.decided(stack=stack_plan(draft), resolve=resolve)


def _await_resolution(draft: Draft) -> Decision:
    """The registry has not answered yet: nothing moves, what serves is kept."""
    if draft.facts.refusals:
        return _mend_first(draft)
    if queue.is_waiting(draft):
        return stabilization.watch(draft) or replace(queue.wait(draft), queued=False, resolve=True)
    if draft.stable is not None and status_recovery.is_candidate_forgotten(draft):
        return draft.decided(stack=None, resolve=True, probe=(draft.stable.hash,))
    if draft.stable is not None:
        return _keep(draft, resolve=True)
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
    return _without_revision(draft, refusal, phase, resolve=True)


def _resolved(draft: Draft, wanted: RevisionStatus) -> Decision:
    draft.condition(ConditionType.RESOLVED, Reason.RESOLVED, f"{wanted.model} is sha256:{wanted.digest}", holds=True)
    _announce_runtime_update(draft)
    if draft.facts.refusals and draft.stable is None:
        return _mend_first(draft)
    if rollback := stabilization.watch(draft):
        return rollback
    if draft.stable is not None and wanted.hash != draft.stable.hash:
        stabilization.step_back(draft)
    if draft.stable is not None and wanted.hash == draft.stable.hash:
        return _stable_path(draft, draft.stable, wanted)
    failed = draft.status.failed_revision
    if failed is not None and failed.hash == wanted.hash:
        return hold_rejected(draft)
    if draft.facts.refusals:
        return _mend_first(draft)
    # What has no Pods is given up once traffic has left it, and only then followed.
    follows = traffic_settled(draft) and stand_in(draft) is None
    return candidate.advance(draft, wanted) if follows else maintain(draft)


def _mend_first(draft: Draft) -> Decision:
    """Go no further until somebody mends what `refusals` name: what serves is kept, and so is what a candidate has.

    One that the serving revision was stopped for gives way to it: until then nothing would serve.
    """
    if is_stable_stopped(draft):
        candidate.supersede(draft)
    if draft.stable is not None:
        return _keep(draft)
    first = draft.facts.refusals[0]
    draft.enter(Phase.DEGRADED)
    draft.condition(ConditionType.READY, first.reason, first.message, holds=False)
    describe_refusals(draft)
    return draft.decided(stack=stack_plan(draft), requeue_after=timing.RECHECK_REFUSED)


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

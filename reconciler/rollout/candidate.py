"""The road of a candidate: store, prefetch, Pods, proof (spec section 5.5)."""

from __future__ import annotations

from api.conditions import ConditionType, EventReason, Phase, Reason, find_condition
from api.status import RevisionStatus
from reconciler.rollout import approval, manifest, queue, timing
from reconciler.rollout.decision import Decision, RevisionPlan
from reconciler.rollout.draft import Draft, short
from reconciler.rollout.facts import PrefetchFacts, PrefetchState, RevisionFacts, StoreState
from reconciler.rollout.in_flight import keep_going
from reconciler.rollout.obstacle import Cause, cause_of
from reconciler.rollout.promotion import settle
from reconciler.rollout.recreate import make_room
from reconciler.rollout.rejection import reject
from reconciler.rollout.stable import describe_replicas
from reconciler.rollout.verified_store import is_verified


def advance(draft: Draft, wanted: RevisionStatus) -> Decision:
    """Take the candidate one step further towards `wanted` becoming the stable revision."""
    if queue.must_wait(draft, wanted):
        supersede(draft)
        return queue.wait(draft)
    candidate = draft.candidate
    if candidate is None or candidate.hash != wanted.hash:
        candidate = _begin(draft, wanted)
    draft.forget(ConditionType.DEGRADED)
    facts = draft.facts.of(candidate)
    if facts.store is StoreState.TERMINATING:
        return _cache(draft, candidate, "the previous store of this revision is still terminating", terminating=True)
    return _start(draft, candidate) if is_verified(candidate, facts) else _fill(draft, candidate)


def _fill(draft: Draft, wanted: RevisionStatus) -> Decision:
    """Go by the prefetch Job until it is recorded that the store is filled; after that nothing depends on the Job."""
    facts = draft.facts.of(wanted)
    if cause := _discard_useless_job(draft, wanted):
        return _cache(draft, wanted, f"the prefetch Job runs again, since {cause}")
    if facts.prefetch.state is PrefetchState.FAILED:
        return reject(draft, wanted, Reason.PREFETCH_FAILED, _prefetch_message(facts.prefetch))
    if facts.prefetch.state is not PrefetchState.COMPLETE:
        told = _told_before_the_end(draft, facts.prefetch) or _caching_cause(draft, facts.prefetch)
        return _cache(draft, wanted, told.message, reason=told.reason)
    return _start(draft, wanted)


def _discard_useless_job(draft: Draft, wanted: RevisionStatus) -> str:
    """Have a Job deleted that cannot help the candidate whatever it says; return why, nothing for a useful one."""
    facts = draft.facts.of(wanted)
    if _cached_elsewhere(facts):
        draft.discard(facts.prefetch.uid)
        return "the store that it filled is gone"
    if facts.prefetch.expired and not _is_overdue(draft):
        # It was given an earlier deadline than the spec grants by now.
        draft.discard(facts.prefetch.uid)
        return "its own deadline has passed, and timeouts.caching has not"
    if manifest.is_broken(draft, wanted):
        manifest.repair(draft, wanted)
        return "its manifest was broken"
    return ""


def _cached_elsewhere(facts: RevisionFacts) -> bool:
    """Whether the Job that ended has filled a store that somebody deleted since."""
    ended = facts.prefetch.state in {PrefetchState.COMPLETE, PrefetchState.FAILED}
    return ended and (facts.prefetch.stale or facts.store is StoreState.ABSENT)


def supersede(draft: Draft) -> None:
    """Abandon the candidate in flight; its objects leave the stack with the next operation."""
    candidate = draft.candidate
    if candidate is None:
        return
    draft.update(candidate_revision=None)
    draft.forget(ConditionType.CACHED, ConditionType.MODEL_READY, ConditionType.EVALUATED)
    if draft.stable is not None:  # what was said of the candidate's Pods is said of those that serve again
        describe_replicas(draft, draft.stable)
    approval.withdraw(draft)
    draft.event(EventReason.CANDIDATE_SUPERSEDED, f"revision {candidate.hash} ({candidate.model}) was abandoned")


def _begin(draft: Draft, wanted: RevisionStatus) -> RevisionStatus:
    supersede(draft)
    draft.update(candidate_revision=wanted, failed_revision=None, previous_revision=None)
    draft.forget(ConditionType.CACHED, ConditionType.STABILIZING)
    # A candidate that follows another one has deadlines of its own.
    draft.update(phase_transition_time=draft.facts.now)
    draft.event(EventReason.RESOLVED, f"{wanted.model} is sha256:{short(wanted.digest)} (revision {wanted.hash})")
    _announce_image(draft, wanted)
    return wanted


def _announce_image(draft: Draft, wanted: RevisionStatus) -> None:
    """Say which runtime a rollout brings when it is another one, and warn when nobody can say which bytes it is."""
    if draft.stable is not None and draft.stable.image != wanted.image:
        draft.event(EventReason.SERVING_IMAGE_APPLIED, f"revision {wanted.hash} serves with {wanted.image}")
    if wanted.image_pinned is False:
        draft.event(EventReason.UNPINNED_RUNTIME_IMAGE, f"{wanted.image} is admitted without a digest")


def _cache(
    draft: Draft,
    wanted: RevisionStatus,
    message: str,
    *,
    terminating: bool = False,
    reason: Reason = Reason.CACHING,
) -> Decision:
    if _is_overdue(draft):
        return reject(draft, wanted, Reason.CACHE_TIMEOUT, f"the model was not cached in time: {message}")
    draft.enter(Phase.CACHING)
    before = find_condition(draft.status.conditions, ConditionType.CACHED)
    draft.condition(ConditionType.CACHED, reason, message, holds=False)
    if before is None or before.status == "True":
        draft.event(EventReason.PREFETCH_STARTED, f"caching {wanted.model} for revision {wanted.hash}")
    requeue = timing.RECHECK_TERMINATING_STORE if terminating else timing.RECHECK_PROGRESS
    # A store that is going away cannot be declared again before it is gone.
    plan = () if terminating else (RevisionPlan(revision=wanted),)
    cause = None if reason is Reason.CACHING else Cause(reason=reason, message=message)
    return keep_going(draft, wanted, Reason.CACHING, plan, requeue, cause=cause)


def _start(draft: Draft, wanted: RevisionStatus) -> Decision:
    if draft.condition(ConditionType.CACHED, Reason.CACHED, "the store holds the verified digest", holds=True):
        draft.event(EventReason.CACHED, f"revision {wanted.hash} is cached and verified")
    may_start = make_room(draft, wanted)
    has_job = draft.facts.of(wanted).prefetch.state is not PrefetchState.ABSENT
    plan = RevisionPlan(revision=wanted, prefetch=has_job, serve=may_start)
    ready, desired = draft.facts.of(wanted).serving.model_ready, draft.spec.replicas
    if may_start and ready >= desired:
        return settle(draft, wanted, plan)
    cause = cause_of(draft.facts.of(wanted).serving.obstacle) if may_start else None
    doing = f"{ready}/{desired} Pods model-ready" if may_start else "the Pods of the serving revision are stopping"
    message = _joined(doing, draft.facts.stack_trouble, cause)
    if draft.has_outlasted(Phase.STARTING, draft.spec.rollout.timeouts.starting_timeout):
        return reject(draft, wanted, Reason.START_TIMEOUT, _overdue(message, cause))
    before = find_condition(draft.status.conditions, ConditionType.MODEL_READY)
    begins = before is None or before.status == "True" or draft.status.phase is not Phase.STARTING
    draft.enter(Phase.STARTING)
    draft.condition(ConditionType.MODEL_READY, Reason.STARTING if cause is None else cause.reason, message, holds=False)
    if begins:
        draft.event(EventReason.REVISION_STARTING, f"starting revision {wanted.hash}")
        _tell_co_location(draft, wanted)
    return keep_going(draft, wanted, Reason.STARTING, (plan,), timing.RECHECK_PROGRESS, cause=cause)


def _is_overdue(draft: Draft) -> bool:
    return draft.has_outlasted(Phase.CACHING, draft.spec.rollout.timeouts.caching_timeout)


def _tell_co_location(draft: Draft, wanted: RevisionStatus) -> None:
    """Say what several replicas cost where only one node can mount their store."""
    claim = draft.facts.of(wanted).claim
    if draft.spec.replicas > 1 and claim is not None and not claim.shareable:
        note = (
            f"the {draft.spec.replicas} Pods of revision {wanted.hash} run on the one node that can mount their store;"
            " a drain takes them all: accessModes with ReadWriteMany let them spread"
        )
        draft.event(EventReason.REPLICAS_CO_LOCATED, note)


def _joined(doing: str, trouble: str, cause: Cause | None) -> str:
    """Say what is waited for, and what stands in the way."""
    return "; ".join(filter(None, (doing, trouble, "" if cause is None else cause.message)))


def _overdue(message: str, cause: Cause | None) -> str:
    return f"{message} when the starting deadline passed" if cause is None else f"not started in time: {message}"


def _caching_cause(draft: Draft, prefetch: PrefetchFacts) -> Cause:
    cause = cause_of(prefetch.obstacle)
    message = _joined("", draft.facts.stack_trouble, cause) or "the prefetch Job is running"
    return Cause(reason=Reason.CACHING if cause is None else cause.reason, message=message)


def _told_before_the_end(draft: Draft, prefetch: PrefetchFacts) -> Cause | None:
    """Return what kept a Job from ending that its own deadline has ended: its Pods, which said so, went with it."""
    told = find_condition(draft.status.conditions, ConditionType.CACHED)
    if not prefetch.expired or told is None or told.status == "True":
        return None
    return Cause(reason=Reason(told.reason), message=told.message)


def _prefetch_message(prefetch: PrefetchFacts) -> str:
    detail = f" ({prefetch.detail})" if prefetch.detail else ""
    permanent = " (permanent)" if prefetch.permanent else ""
    return f"prefetch failed: {prefetch.failure}{detail}{permanent}"

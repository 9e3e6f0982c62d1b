"""Refilling the lost store of the revision that serves (spec section 8.1).

The claim is created again under a mark, and stays marked until a Job younger than the claim has filled it. Only a
marked claim's old Job is discarded: without Job and mark an empty store would look like a filled one. A Deployment
whose Pods answer is left as it is. Where none does, it waits without Pods until the store is filled: a Pod that mounts
the empty claim on another node, or a claim that one Pod alone can mount, would keep the Job away from it.
"""

from __future__ import annotations

from api.conditions import EventReason, Reason
from api.status import RevisionStatus, StoreRecovery
from components import names
from reconciler.rollout import timing
from reconciler.rollout.draft import Draft
from reconciler.rollout.facts import PrefetchFacts, PrefetchState, Refusal, RevisionFacts, StoreState
from reconciler.rollout.obstacle import Cause, explained

ATTEMPTS = 3


def is_empty(facts: RevisionFacts) -> bool:
    """Whether the store of a proved revision was lost and no Job has filled it since.

    Without a mark and without a Job nothing speaks against a store. With a Job that has not filled it, it was created
    again while an operation was under way that had been planned before the loss.
    """
    match facts.store:
        case StoreState.ABSENT:
            return True
        case StoreState.RECOVERING:
            return not facts.filled
        case StoreState.PRESENT:
            return facts.prefetch.state is not PrefetchState.ABSENT and not facts.filled
        case StoreState.TERMINATING:
            return False


def bears_mark(facts: RevisionFacts) -> bool:
    """Whether the claim of a proved revision is planned under the mark: it is empty, or its successor will be.

    A claim on its way out may go while an operation is under way, which then creates it again as it was planned.
    """
    return facts.store is StoreState.TERMINATING or is_empty(facts)


def may_start_pods(facts: RevisionFacts) -> bool:
    """Whether Pods of a proved revision may be declared: never newly on a store without files."""
    return facts.serving.exists or (facts.store is not StoreState.TERMINATING and not is_empty(facts))


def waits_for_store(facts: RevisionFacts) -> bool:
    """Whether the Deployment of a proved revision has to wait without Pods: its store is empty, and nothing answers."""
    return facts.serving.exists and facts.serving.model_ready == 0 and is_empty(facts)


def is_withheld(facts: RevisionFacts) -> bool:
    """Whether a lost store must not be created again yet: Pods would mount it before the Job does."""
    return waits_for_store(facts) and facts.store is StoreState.ABSENT and facts.serving.pods > 0


def needs_prefetch(draft: Draft, revision: RevisionStatus) -> bool:
    """Whether the plan of a proved revision holds a Job: one that is history, or one that refills the store."""
    facts = draft.facts.of(revision)
    has_job = facts.prefetch.state is not PrefetchState.ABSENT
    if is_withheld(facts) or (waits_for_store(facts) and facts.serving.pods > 0 and not has_job):
        return False
    if _recovers(draft, revision) and facts.store is StoreState.RECOVERING and is_empty(facts):
        return not _exhausted(draft)
    # The history of version 0.3 is not ours to declare again: its Jobs were others, and a Job never changes.
    return has_job and not names.is_legacy(revision.hash)


def tend_store(draft: Draft) -> float:
    """Take the refilling of the stable's store one step further; call it after the health was described.

    Returns:
        When to look again, in seconds.
    """
    stable = draft.stable
    if stable is None or not _recovers(draft, stable):
        return timing.RECHECK_READY
    facts = draft.facts.of(stable)
    if facts.store is StoreState.TERMINATING:
        message = "the store is being deleted but Pods still mount it; they serve until somebody deletes them"
        if draft.degrade(Reason.STORE_TERMINATING, message):
            draft.event(EventReason.STORE_TERMINATING, f"revision {stable.hash}: {message}")
        if facts.prefetch.state in {PrefetchState.COMPLETE, PrefetchState.FAILED}:
            # The Pod of a Job that has ended holds the claim as any other does, and nobody would think of it.
            draft.discard(facts.prefetch.uid)
        return timing.RECHECK_PROGRESS
    if not is_empty(facts):
        draft.update(store_recovery=None)
        return timing.RECHECK_READY
    return _refill(draft, stable, facts)


def _refill(draft: Draft, stable: RevisionStatus, facts: RevisionFacts) -> float:
    marked = facts.store is StoreState.RECOVERING
    if marked:
        _count_failure(draft, facts.prefetch)
    if _exhausted(draft):
        return _give_up(draft, stable)
    if draft.facts.token_refusal is not None and facts.prefetch.state is not PrefetchState.RUNNING:
        return _wait_for_token(draft, stable, draft.facts.token_refusal)
    message = "the store is gone; it is created again and refilled"
    if waits_for_store(facts):
        message += ", and no Pod is started before that" if not facts.serving.pods else " once its Pods have stopped"
    lost = Cause(reason=Reason.STORE_LOST, message=message)
    if draft.degrade(lost.reason, explained(lost, facts.prefetch.obstacle).message):
        draft.event(EventReason.STORE_LOST, f"the store of revision {stable.hash} is gone and is refilled")
    if not marked:
        return timing.RECHECK_LOST_STORE
    if not _has_to_run_again(facts.prefetch):
        return timing.RECHECK_PROGRESS
    draft.discard(facts.prefetch.uid)
    return timing.RECHECK_LOST_STORE


def _wait_for_token(draft: Draft, stable: RevisionStatus, refusal: Refusal) -> float:
    """Nothing is refilled with a token that was refused: a Job that has failed stays until there is another."""
    message = f"the store is gone, and its recovery waits for the download token: {refusal.reason}: {refusal.message}"
    if draft.degrade(Reason.STORE_LOST, message):
        draft.event(EventReason.STORE_LOST, f"revision {stable.hash}: {message}")
    return timing.RECHECK_REFUSED


def _give_up(draft: Draft, stable: RevisionStatus) -> float:
    message = "the store could not be refilled; set the retry annotation to a new value to try again"
    if draft.degrade(Reason.STORE_PREFETCH_FAILED, message):
        draft.event(EventReason.STORE_PREFETCH_FAILED, f"revision {stable.hash}: {message}")
    return timing.RECHECK_READY


def _recovers(draft: Draft, revision: RevisionStatus) -> bool:
    """Whether it is this revision's store that is refilled: the stable's, and not beside a candidate's rollout."""
    return draft.candidate is None and draft.stable is not None and draft.stable.hash == revision.hash


def _exhausted(draft: Draft) -> bool:
    recovery = draft.status.store_recovery
    return recovery is not None and recovery.exhausted


def _failed(prefetch: PrefetchFacts) -> bool:
    return prefetch.state is PrefetchState.FAILED or prefetch.expired


def _has_to_run_again(prefetch: PrefetchFacts) -> bool:
    return _failed(prefetch) or (prefetch.state is PrefetchState.COMPLETE and prefetch.stale)


def _count_failure(draft: Draft, prefetch: PrefetchFacts) -> None:
    """Count a failed Job once; a Job older than the claim tried to fill another store."""
    recovery = draft.status.store_recovery or StoreRecovery()
    if not _failed(prefetch) or prefetch.stale or prefetch.uid == recovery.last_failed_job:
        return
    attempts = recovery.attempts + 1
    exhausted = prefetch.permanent or attempts >= ATTEMPTS
    draft.update(store_recovery=StoreRecovery(attempts=attempts, last_failed_job=prefetch.uid, exhausted=exhausted))

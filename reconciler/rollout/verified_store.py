"""The record of which store holds a revision's model: a Job was seen to have filled this very claim.

Finished Jobs may be deleted by anybody at any time. What they did is recorded with the claim's UID, so that neither a
Job that is gone makes a filled store look empty, nor a store that was created again looks filled. Where nothing is
recorded, and no Job is there to tell, ready Pods prove the claim that they serve from.
"""

from __future__ import annotations

from api.status import DecisionModelStatus, RevisionStatus
from reconciler.rollout.facts import Facts, PrefetchState, RevisionFacts, StoreState


def with_filled(status: DecisionModelStatus, facts: Facts) -> DecisionModelStatus:
    """Return the status with the claims that Jobs have filled, of the stable and of the candidate in flight."""
    return status.model_copy(
        update={
            "stable_revision": _with_claim(status.stable_revision, facts),
            "candidate_revision": _with_claim(status.candidate_revision, facts),
        }
    )


def is_verified(revision: RevisionStatus, facts: RevisionFacts) -> bool:
    """Whether the revision's store is known to be filled whatever becomes of its Job."""
    return facts.verified or _proved_by_pods(revision, facts)


def _proved_by_pods(revision: RevisionStatus, facts: RevisionFacts) -> bool:
    untold = not revision.verified_store and facts.prefetch.state is PrefetchState.ABSENT
    return untold and facts.store is StoreState.PRESENT and facts.serving.model_ready > 0


def _with_claim(revision: RevisionStatus | None, facts: Facts) -> RevisionStatus | None:
    if revision is None:
        return None
    found = facts.of(revision)
    filled = found.prefetch.has_filled_the_store or _proved_by_pods(revision, found)
    if found.claim is None or not filled:
        return revision
    return revision.model_copy(update={"verified_store": found.claim.uid})

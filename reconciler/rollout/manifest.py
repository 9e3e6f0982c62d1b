"""The candidate's manifest ConfigMap: what to do when it is broken or gone while it is needed (spec section 4.2)."""

from __future__ import annotations

from api.conditions import EventReason
from api.status import RevisionStatus
from reconciler.rollout.draft import Draft
from reconciler.rollout.facts import ManifestState, PrefetchState


def is_broken(draft: Draft, candidate: RevisionStatus) -> bool:
    """Whether the candidate's prefetch Job was given a manifest that it cannot use."""
    if draft.facts.manifest is ManifestState.SOUND:
        return False
    return draft.facts.of(candidate).prefetch.state not in {PrefetchState.ABSENT, PrefetchState.COMPLETE}


def repair(draft: Draft, candidate: RevisionStatus) -> None:
    """Have the manifest made again and the Job run again; without the verified bytes the Job does without it."""
    draft.repair_manifest()
    draft.discard(draft.facts.of(candidate).prefetch.uid)
    if draft.facts.manifest is ManifestState.REPAIRABLE:
        draft.event(EventReason.MANIFEST_REPAIRED, f"the manifest of revision {candidate.hash} was made again")
        return
    note = f"the manifest of revision {candidate.hash} is broken and cannot be made again; pulling by tag"
    draft.event(EventReason.MANIFEST_INVALID, note)

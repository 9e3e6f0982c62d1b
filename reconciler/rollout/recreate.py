"""Strategy Recreate: the stable stops before its successor starts, for nodes with room for one of them (spec 5.5).

Whether the stable was stopped is recorded before anything is scaled down. From then on the record counts and not the
spec, so that editing the strategy halfway neither starts nor stops anything by surprise.
"""

from __future__ import annotations

from api.conditions import EventReason
from api.rollout import Strategy
from api.status import RevisionStatus
from reconciler.rollout.decision import RolloutResult
from reconciler.rollout.draft import Draft


def is_stopped(draft: Draft, revision: RevisionStatus) -> bool:
    """Whether a revision that has served is to have no Pods: to make room for its successor, or for its predecessor."""
    if (rollback := draft.status.recreate_rollback) is not None:
        if revision.hash == rollback.failed.hash:
            return True
        if revision.hash == rollback.target.hash:
            return draft.facts.of(rollback.failed).serving.pods > 0
    previous = draft.status.previous_revision
    if previous is not None and previous.hash == revision.hash:
        return previous.strategy is Strategy.RECREATE
    return is_stable_stopped(draft) and draft.stable is not None and draft.stable.hash == revision.hash


def is_stable_stopped(draft: Draft) -> bool:
    """Whether the stable was stopped for the candidate in flight."""
    return draft.candidate is not None and draft.status.stable_stopped_for_revision == draft.candidate.hash


def make_room(draft: Draft, wanted: RevisionStatus) -> bool:
    """Stop the stable for `wanted` where the strategy asks for it; return whether `wanted` may start."""
    stable = draft.stable
    if stable is None:
        return True
    if not is_stable_stopped(draft):
        if draft.spec.rollout.effective_strategy is not Strategy.RECREATE:
            return True
        draft.update(stable_stopped_for_revision=wanted.hash)
        draft.event(EventReason.STABLE_STOPPED, f"revision {stable.hash} stops to make room for {wanted.hash}")
        draft.count(RolloutResult.STABLE_STOPPED)
    facts = draft.facts
    # Pods that are there stay, whatever else comes back; a Deployment without any may be one that was stopped itself.
    return facts.of(stable).serving.pods == 0 or facts.of(wanted).serving.pods > 0


def tell_restored(draft: Draft) -> None:
    """Say once that a stable serves again that was stopped for a candidate which came to nothing."""
    stable = draft.stable
    if not draft.status.stable_stopped_for_revision or is_stable_stopped(draft) or stable is None:
        return
    if draft.facts.of(stable).serving.model_ready > 0:
        draft.update(stable_stopped_for_revision="")
        announce_restored(draft, stable)


def announce_restored(draft: Draft, stable: RevisionStatus) -> None:
    """Say and count that a stopped revision serves again."""
    draft.event(EventReason.STABLE_RESTORED, f"revision {stable.hash} serves again")
    draft.count(RolloutResult.STABLE_RESTORED)

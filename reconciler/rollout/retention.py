"""Which revision besides stable and candidate must not be removed yet, and where traffic belongs (spec section 5.8).

A revision leaves the status only when the Service does not select it and no operation under way is about to have it
selected. So traffic may go to and fro between the stable and its predecessor, but never to what nobody knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timedelta

from api.status import DecisionModelStatus, FailedRevisionStatus, PreviousRevision, RevisionStatus
from reconciler.rollout import timing
from reconciler.rollout.draft import Draft
from reconciler.rollout.facts import Facts


def window_end(previous: PreviousRevision, stabilization: timedelta) -> datetime:
    """Return when the old revision may go: the stabilization window, but never less than the promotion grace."""
    return previous.promoted_at + max(stabilization, timedelta(seconds=timing.PROMOTION_GRACE))


def traffic_settled(draft: Draft) -> bool:
    """Whether the Service selects the stable, and will. Before that, neither a window ends nor does a candidate begin.

    Without a Service nothing is known as long as there is a revision to go back to: one that an operation is about to
    make may still select that.
    """
    stable, selected = draft.stable, draft.facts.service_selects
    if stable is None:
        return True
    if draft.facts.switching_to not in (None, stable.hash):
        return False
    return selected == stable.hash or (selected is None and draft.status.previous_revision is None)


def has_no_traffic(draft: Draft, revision: RevisionStatus) -> bool:
    """Whether the Service selects another revision, and will."""
    selected, coming = draft.facts.service_selects, draft.facts.switching_to
    return selected not in (None, revision.hash) and coming != revision.hash


def needed_pods(draft: Draft, previous: PreviousRevision) -> int:
    """Return how many Pods a promoted revision needs in its window: half of those that it has had, or should have."""
    ready = 0 if draft.stable is None else draft.facts.of(draft.stable).serving.model_ready
    proved = previous.proved_replicas or max(1, ready)
    return max(1, math.ceil(min(draft.spec.replicas, proved) / 2))


def stand_in(draft: Draft) -> PreviousRevision | None:
    """Return the predecessor of the stable while traffic belongs to it: it has Pods, and the stable has none.

    Once there, traffic stays until the stable has as many as its window asks for.
    """
    stable, previous = draft.stable, draft.status.previous_revision
    if stable is None or previous is None or draft.facts.of(previous.revision).serving.model_ready == 0:
        return None
    ready = draft.facts.of(stable).serving.model_ready
    returns = draft.facts.service_selects == previous.hash and ready < needed_pods(draft, previous)
    return previous if ready == 0 or returns else None


def identity_of(failed: FailedRevisionStatus) -> RevisionStatus:
    """Return a rejected revision without the record of its rejection."""
    return RevisionStatus.model_validate(failed.model_dump(include=set(RevisionStatus.model_fields), by_alias=False))


def known_revisions(status: DecisionModelStatus) -> Iterable[RevisionStatus]:
    """Yield the records of all revisions that a status mentions."""
    for revision in (status.stable_revision, status.candidate_revision):
        if revision is not None:
            yield revision
    if status.failed_revision is not None:
        yield identity_of(status.failed_revision)
    if status.previous_revision is not None:
        yield status.previous_revision.revision
    if status.recreate_rollback is not None:
        yield status.recreate_rollback.failed
        yield status.recreate_rollback.target


def selected_record(facts: Facts) -> RevisionStatus | None:
    """Return the record of what the live Service selects: the persisted one, else what the live objects prove."""
    known = known_revisions(facts.model.status)
    recorded = next((each for each in known if each.hash == facts.service_selects), None)
    return recorded or (None if facts.unrecorded is None else facts.unrecorded.record)


def kept_revision(draft: Draft) -> RevisionStatus | None:
    """Return the revision that is no longer stable but still needed: for a way back, or because traffic is on it.

    The live Service selects an older revision when a pass ended between the status write and the switch; nothing that
    is selected is ever removed.
    """
    previous, failed = draft.status.previous_revision, draft.status.failed_revision
    rollback = draft.status.recreate_rollback
    if rollback is not None and draft.stable is not None:
        return rollback.target if draft.stable.hash == rollback.failed.hash else rollback.failed
    selected = draft.facts.service_selects
    if previous is not None and previous.revision.hash == selected:
        return previous.revision
    if failed is not None and failed.hash == selected:
        return identity_of(failed)
    if previous is not None:
        return previous.revision
    return None

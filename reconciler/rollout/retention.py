"""Which revision besides stable and candidate must not be removed yet (spec section 5.8)."""

from __future__ import annotations

from datetime import datetime, timedelta

from api.status import FailedRevisionStatus, PreviousRevision, RevisionStatus
from reconciler.rollout import timing
from reconciler.rollout.draft import Draft


def window_end(previous: PreviousRevision, stabilization: timedelta) -> datetime:
    """Return when the old revision may go: the stabilization window, but never less than the promotion grace."""
    return previous.promoted_at + max(stabilization, timedelta(seconds=timing.PROMOTION_GRACE))


def traffic_settled(draft: Draft) -> bool:
    """Whether the Service selects the stable. Before that, neither a window ends nor a candidate takes its place.

    Without a Service nothing is known as long as there is a revision to go back to: one that an operation is about to
    make may still select that.
    """
    stable, selected = draft.stable, draft.facts.service_selects
    if stable is None or selected == stable.hash:
        return True
    return selected is None and draft.status.previous_revision is None


def identity_of(failed: FailedRevisionStatus) -> RevisionStatus:
    """Return a rejected revision without the record of its rejection."""
    return RevisionStatus.model_validate(failed.model_dump(include=set(RevisionStatus.model_fields), by_alias=False))


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

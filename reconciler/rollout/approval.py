"""A person's approval of a candidate that is held (spec section 5.12), as the promote annotation says it.

It is consumed only when the approved revision is the persisted stable, so a crash in between neither loses it nor acts
on it twice. The status remembers what was consumed last: whoever keeps manifests in Git puts the annotation back again
and again, and one word of a person is one promotion.
"""

from __future__ import annotations

from api.conditions import ConditionType, EventReason, Reason, find_condition
from api.keys import PROMOTE_ANNOTATION
from api.status import DecisionModelStatus, RevisionStatus
from reconciler.rollout.draft import Draft

_LONGEST_QUOTE = 64


def is_approved(draft: Draft, candidate: RevisionStatus) -> bool:
    """Whether the annotation approves the candidate as it was measured, or by its name where nothing is measured."""
    given = _approval(draft)
    if not given or given != _expected(draft, candidate) or given == draft.status.last_approval:
        return False
    draft.event(EventReason.PROMOTION_APPROVED, f"revision {candidate.hash} was approved")
    if draft.spec.rollout.evaluation is None:
        draft.event(
            EventReason.DEPRECATED_APPROVAL,
            "the approval names a bare revision; with spec.rollout.evaluation it would name what was measured, too",
        )
    return True


def ask(draft: Draft, candidate: RevisionStatus) -> None:
    """Say how to approve the candidate, and once about each other value that it does not count."""
    before = find_condition(draft.status.conditions, ConditionType.PROMOTED)
    expected = _expected(draft, candidate)
    message = f"annotate with {PROMOTE_ANNOTATION}={expected} to promote revision {candidate.hash}"
    approval = _approval(draft)
    if not approval and draft.status.last_approval == expected:
        # Whoever puts it back by himself would have done so by now: the next one is a person's.
        draft.update(last_approval="")
    used = approval == expected
    stale = "" if used else _quoted(approval)
    if used:
        message = f"{message}; that value was consumed by an earlier rollout: take it out, then set it again"
    if stale:
        message = f"{message}; {stale} approves something else"
    if draft.condition(ConditionType.PROMOTED, Reason.PROMOTION_PENDING, message, holds=False):
        draft.event(EventReason.AWAITING_PROMOTION, f"revision {candidate.hash} is ready and waits for approval")
    if not stale or (before is not None and before.message == message):
        return
    if approval == candidate.hash:
        note = f"the bare revision approves nothing here: what was measured is approved by {expected}"
        draft.event(EventReason.DEPRECATED_APPROVAL, note)
    else:
        draft.event(EventReason.STALE_APPROVAL, f"{stale} is no approval of revision {candidate.hash}")


def is_asked_for(status: DecisionModelStatus) -> bool:
    """Whether a candidate waits for a person: it has been proved, and what is left takes a moment."""
    promoted = find_condition(status.conditions, ConditionType.PROMOTED)
    waits = promoted is not None and promoted.reason == Reason.PROMOTION_PENDING
    return waits and status.candidate_revision is not None


def withdraw(draft: Draft) -> None:
    """Ask no more: the candidate is gone."""
    condition = find_condition(draft.status.conditions, ConditionType.PROMOTED)
    if condition is not None and condition.reason == Reason.PROMOTION_PENDING:
        draft.forget(ConditionType.PROMOTED)


def consume(draft: Draft) -> None:
    """Have the annotation removed, once, when the revision that it approves is the persisted stable."""
    persisted = draft.facts.model.status
    stable, evaluation = persisted.stable_revision, persisted.evaluation
    approval = _approval(draft)
    if stable is None or not approval or approval == persisted.last_approval:
        return
    measured = evaluation.approval_id if evaluation is not None and evaluation.revision == stable.hash else ""
    if approval in {stable.hash, measured}:
        draft.update(last_approval=approval)
        draft.consume_approval()


def _expected(draft: Draft, candidate: RevisionStatus) -> str:
    """Return the value that approves the candidate; with an evaluation it has passed, which is in the status."""
    evaluation = draft.status.evaluation
    if draft.spec.rollout.evaluation is None or evaluation is None:
        return candidate.hash
    return evaluation.approval_id


def _approval(draft: Draft) -> str:
    return draft.facts.model.metadata.annotations.get(PROMOTE_ANNOTATION, "")


def _quoted(value: str) -> str:
    """Return the value as a condition may show it: anybody may have written anything."""
    shown = "".join(filter(str.isprintable, value))[:_LONGEST_QUOTE]
    return f"{shown!r}" if value else ""

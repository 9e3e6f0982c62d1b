"""A status that no longer says what serves: the record comes back from the live objects before anything is done.

A Service of ours that selects a Deployment of ours is evidence of what serves, whatever became of the status: it may
have been restored from a backup without it, or edited. What cannot be proved from the live objects is left as it is.
"""

from __future__ import annotations

from typing import Final

from api.conditions import ConditionType, EventReason, Phase, Reason
from api.rollout import Strategy
from api.status import PreviousRevision, ReplicaStatus, RevisionStatus
from reconciler.rollout import timing
from reconciler.rollout.decision import Decision
from reconciler.rollout.draft import Draft
from reconciler.rollout.facts import RevisionFacts
from reconciler.rollout.recreate import is_stable_stopped
from reconciler.rollout.retention import selected_record

_UNDER_WAY: Final = frozenset(
    {None, Phase.RESOLVING, Phase.CACHING, Phase.STARTING, Phase.EVALUATING, Phase.AWAITING_PROMOTION}
)
"""Phases with a candidate; no phase at all is one that was lost."""


def advance(draft: Draft) -> Decision | None:
    """Record again what serves where the status lost it, and do nothing else in the same pass; None if nothing is lost.

    What is written here is acted upon by the next pass, so nothing is ever done on a record that was not persisted.
    """
    selected = draft.facts.service_selects
    if selected is None or not _is_lost(draft, selected):
        return None
    record = selected_record(draft.facts)
    return _keep(draft, selected) if record is None else _adopt(draft, record)


def is_candidate_forgotten(draft: Draft) -> bool:
    """Whether a rollout was under way and its candidate's record is gone: what there is of it may be needed again."""
    stable = draft.stable
    settled = stable is not None and stable.hash == draft.facts.service_selects
    return settled and draft.candidate is None and draft.status.phase in _UNDER_WAY


def _is_lost(draft: Draft, selected: str) -> bool:
    facts, stable = draft.facts, draft.stable
    serving = facts.revisions.get(selected, RevisionFacts()).serving
    if stable is None:
        return serving.exists
    if stable.hash == selected or selected in _leaving(draft):
        return False
    if facts.unrecorded is not None and facts.unrecorded.record is None:
        return True
    # An older status: what it calls stable is gone, and clients are answered by what came after it.
    return facts.of(stable).serving.model_ready == 0 and serving.model_ready > 0


def _leaving(draft: Draft) -> set[str]:
    """Return the revisions that traffic is about to leave, which the Service may still select."""
    status = draft.status
    rollback = status.recreate_rollback
    staged = () if rollback is None else (rollback.failed, rollback.target)
    records = (status.previous_revision, status.failed_revision, *staged)
    return {each.hash for each in records if each is not None}


def _adopt(draft: Draft, record: RevisionStatus) -> Decision:
    status = draft.status
    candidate, failed = status.candidate_revision, status.failed_revision
    draft.update(
        stable_revision=_proved(draft, record),
        candidate_revision=None if candidate is not None and candidate.hash == record.hash else candidate,
        failed_revision=None if failed is not None and failed.hash == record.hash else failed,
        previous_revision=_way_back(draft, record),
    )
    note = f"the status did not say what serves; the Service selects revision {record.hash} ({record.model})"
    draft.condition(ConditionType.PROMOTED, Reason.STATUS_RECOVERED, note, holds=True)
    draft.event(EventReason.STATUS_RECOVERED, f"{note}, which is recorded again")
    return draft.decided(stack=None, requeue_after=0.0)


def _proved(draft: Draft, record: RevisionStatus) -> RevisionStatus:
    """Return the record with the claim that Pods serve from right now: they could not be ready on an empty one."""
    facts = draft.facts.of(record)
    if facts.claim is None or not facts.serving.model_ready:
        return record
    return record.model_copy(update={"verified_store": facts.claim.uid})


def _way_back(draft: Draft, record: RevisionStatus) -> PreviousRevision | None:
    """Return the revision to go back to: the recorded one, or what an older status calls stable while it is there."""
    old, previous = draft.stable, draft.status.previous_revision
    if old is None:
        return None if previous is not None and previous.hash == record.hash else previous
    if not draft.facts.of(old).serving.exists:
        return None
    strategy = Strategy.RECREATE if is_stable_stopped(draft) else Strategy.BLUE_GREEN
    return PreviousRevision(hash=old.hash, promoted_at=draft.facts.now, revision=old, strategy=strategy)


def _keep(draft: Draft, selected: str) -> Decision:
    """Change nothing of what serves and cannot be recognised; whatever the registry answers may prove it yet."""
    name = draft.facts.model.metadata.name
    message = (
        f"the status does not say what serves, and the objects of revision {selected}, which the Service selects, do"
        " not prove it; nothing is changed: restore the status, or let the spec ask for what runs; to give it up and"
        f" roll out the spec, delete Service {name}"
    )
    ready = draft.facts.revisions[selected].serving.model_ready
    draft.update(replicas=ReplicaStatus(desired=draft.spec.replicas, model_ready=ready))
    draft.enter(Phase.DEGRADED)
    draft.condition(ConditionType.READY, Reason.STATUS_LOST, message, holds=ready > 0)
    if draft.degrade(Reason.STATUS_LOST, message):
        draft.event(EventReason.STATUS_LOST, message)
    resolve = draft.facts.preflight is None
    return draft.decided(stack=None, resolve=resolve, requeue_after=timing.RECHECK_REFUSED)

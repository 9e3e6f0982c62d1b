"""The retry annotation: a new value clears what has failed, exactly once (spec section 5.7)."""

from __future__ import annotations

import hashlib
from typing import Final

from api.conditions import ConditionType, EventReason
from api.decisionmodel import DecisionModel
from api.keys import RETRY_ANNOTATION
from reconciler.rollout.draft import Draft

_LONGEST_TOKEN: Final = 253


def is_due(model: DecisionModel, service_selects: str | None) -> bool:
    """Whether the annotation has a value that nobody acted upon yet, and may be acted upon.

    Until the traffic of a failed revision has moved, that is kept, and known; the value counts after that.
    """
    failed = model.status.failed_revision
    return _is_new(model) and (failed is None or failed.hash != service_selects)


def consume(draft: Draft) -> None:
    """Clear a failed revision and an exhausted store recovery, and record the value."""
    model = draft.facts.model
    if not is_due(model, draft.facts.service_selects):
        return
    draft.update(last_retry_token=_recorded(model.metadata.annotations[RETRY_ANNOTATION]))
    failed, recovery = draft.status.failed_revision, draft.status.store_recovery
    exhausted = recovery is not None and recovery.exhausted
    if failed is None and not exhausted:
        draft.event(EventReason.RETRY_NOOP, "there is nothing failed to retry")
        return
    draft.update(failed_revision=None, store_recovery=None if exhausted else recovery)
    draft.forget(ConditionType.DEGRADED)


def _is_new(model: DecisionModel) -> bool:
    token = model.metadata.annotations.get(RETRY_ANNOTATION, "")
    # An earlier version recorded it whole, whatever its length.
    return bool(token) and model.status.last_retry_token not in {token, _recorded(token)}


def _recorded(token: str) -> str:
    """Return what the status says of a value: itself, or of a long one its digest."""
    return token if len(token) <= _LONGEST_TOKEN else f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"

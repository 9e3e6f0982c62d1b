"""The coarse clock: the present stands still, and moments in the status move into the past.

Ages are cut down to the marks at which a decision can turn, so that there are finitely many of them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from api.conditions import Condition, ConditionType
from api.status import DecisionModelStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BACKWARDS = -20
"""How far a clock is set back, in seconds."""

_PHASE_AGES = (BACKWARDS, 0, 31, 301, 601, 1801)
_PROMOTION_AGES = (BACKWARDS, 0, 31, 301)
_RETELLING_AGES = (BACKWARDS, 0, 31, 301, 601)
_UNHEALTHY_AGES = (BACKWARDS, 0, 31)


def aged(status: DecisionModelStatus, seconds: int) -> DecisionModelStatus:
    """Return the status as it looks `seconds` later, without what nothing depends on."""
    previous, failed, rollback = status.previous_revision, status.failed_revision, status.recreate_rollback
    if previous is not None:
        previous = previous.model_copy(update={"promoted_at": _older(previous.promoted_at, seconds, _PROMOTION_AGES)})
    if failed is not None:
        failed = failed.model_copy(update={"failed_at": NOW})
    if rollback is not None:
        rollback = rollback.model_copy(update={"started_at": _older(rollback.started_at, seconds, _PHASE_AGES)})
    return status.model_copy(
        update={
            "phase_transition_time": _older(status.phase_transition_time, seconds, _PHASE_AGES),
            "last_promotion_time": _older(status.last_promotion_time, seconds, _RETELLING_AGES),
            "previous_revision": previous,
            "failed_revision": failed,
            "recreate_rollback": rollback,
            "conditions": tuple(_aged(condition, seconds) for condition in status.conditions),
        }
    )


def _aged(condition: Condition, seconds: int) -> Condition:
    since: datetime | None = NOW
    if condition.type == ConditionType.STABILIZING:
        since = _older(condition.last_transition_time, seconds, _UNHEALTHY_AGES)
    if since == condition.last_transition_time:
        return condition
    return condition.model_copy(update={"last_transition_time": since})


def _older(moment: datetime | None, seconds: int, marks: tuple[int, ...]) -> datetime | None:
    if moment is None:
        return None
    age = (NOW - moment).total_seconds() + seconds
    return NOW - timedelta(seconds=max((mark for mark in marks if mark <= age), default=marks[0]))

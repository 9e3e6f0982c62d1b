"""Whether a DecisionModel is under way, done, or given up, in the form that generic waiters understand.

`Reconciling` and `Stalled` are the conditions of kstatus (sigs.k8s.io/cli-utils), which Flux, Helm and others read:
True is abnormal, both False is done. Both are always there, so that `kubectl wait` can wait for either.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from api.conditions import ConditionType, Phase, Reason, find_condition
from api.status import DecisionModelStatus
from reconciler.rollout.facts import Facts, ResolutionFailed, TagMissing
from reconciler.rollout.obstacle import Cause


class Progress(StrEnum):
    """How far the platform is with what the spec asks for."""

    UNDER_WAY = "under way"
    DONE = "done"
    GIVEN_UP = "given up"
    """Nothing more happens until somebody changes something."""


@dataclass(frozen=True, slots=True)
class Course:
    """How far, and why."""

    progress: Progress
    cause: Cause


# Where each phase says what it waits for; elsewhere `Ready` does.
_SPEAKING: Final = {
    Phase.CACHING: ConditionType.CACHED,
    Phase.STARTING: ConditionType.MODEL_READY,
    Phase.EVALUATING: ConditionType.EVALUATED,
    Phase.AWAITING_PROMOTION: ConditionType.PROMOTED,
    Phase.DEGRADED: ConditionType.DEGRADED,
}
_GIVEN_UP_PHASES: Final = (Phase.FAILED, Phase.ROLLED_BACK)
_HOPELESS: Final = (Reason.STORE_PREFETCH_FAILED,)
# The engine or the store's recovery goes on by itself.
_MENDED: Final = (Reason.STACK_FAILED, Reason.STORE_LOST, Reason.STORE_TERMINATING)
_DONE: Final = Course(Progress.DONE, Cause(reason=Reason.READY, message=""))


def course_of(facts: Facts, status: DecisionModelStatus) -> Course:
    """Return how far a model is: from what a pass knew, and from the status that it came to."""
    if status.recreate_rollback is not None and facts.conflict is None:
        return _under_way(_told(status, ConditionType.READY))
    if (refused := _refused(facts)) is not None:
        return _given_up(refused)
    if facts.resolution is None:
        return _under_way(_queued(status) or Cause(reason=Reason.RESOLVING, message="asking the registry for the tag"))
    if status.phase in _GIVEN_UP_PHASES or _is_degraded(status, _HOPELESS):
        return _given_up(_told(status, ConditionType.DEGRADED))
    return _going_on(facts, status)


def _queued(status: DecisionModelStatus) -> Cause | None:
    """Return that the model stands in the line, if it does: whoever takes over asks the registry once more."""
    told = _told(status, ConditionType.READY)
    return told if told.reason is Reason.ROLLOUT_QUEUED else None


def _is_degraded(status: DecisionModelStatus, reasons: Collection[Reason]) -> bool:
    degraded = find_condition(status.conditions, ConditionType.DEGRADED)
    return degraded is not None and degraded.reason in reasons


def _refused(facts: Facts) -> Cause | None:
    """Return what somebody has to mend before the platform acts on the spec."""
    if facts.conflict is not None:
        return Cause(reason=Reason.RESOURCE_CONFLICT, message=facts.conflict)
    refusal = facts.preflight or next(iter(facts.refusals), None)
    if refusal is not None:
        return Cause(reason=refusal.reason, message=refusal.message)
    if isinstance(facts.resolution, TagMissing):
        return Cause(reason=Reason.MODEL_NOT_FOUND, message=facts.resolution.message)
    return None


def _going_on(facts: Facts, status: DecisionModelStatus) -> Course:
    if isinstance(facts.resolution, ResolutionFailed):
        return _under_way(Cause(reason=Reason.RESOLVE_FAILED, message=facts.resolution.message))
    if status.phase is not Phase.READY or status.candidate_revision is not None or status.stable_revision is None:
        return _under_way(_told(status, _SPEAKING.get(status.phase or Phase.PENDING, ConditionType.READY)))
    if facts.service_selects != status.stable_revision.hash:
        return _under_way(Cause(reason=Reason.PROMOTED, message="the Service is about to select what was promoted"))
    if _is_degraded(status, _MENDED):
        return _under_way(_told(status, ConditionType.DEGRADED))
    if facts.of(status.stable_revision).serving.rolling:
        return _under_way(Cause(reason=Reason.STABLE_ROLLING, message="Pods are being replaced"))
    return _under_way(_APPLYING) if _is_being_applied(facts) else _DONE


_APPLYING: Final = Cause(reason=Reason.APPLYING, message="what the spec asks for is being applied")


def _is_being_applied(facts: Facts) -> bool:
    """Whether the engine may still be at what a new spec asks for; what it repairs meanwhile is nobody's wait."""
    if facts.is_new_spec:
        return True
    reconciling = find_condition(facts.model.status.conditions, ConditionType.RECONCILING)
    return facts.stack_busy and reconciling is not None and reconciling.status == "True"


def _told(status: DecisionModelStatus, type_: ConditionType) -> Cause:
    """Return what a condition says, or `Ready` where it is not there."""
    found = find_condition(status.conditions, type_) or find_condition(status.conditions, ConditionType.READY)
    if found is None:
        return Cause(reason=Reason.RESOLVING, message="")
    return Cause(reason=Reason(found.reason), message=found.message)


def _under_way(cause: Cause) -> Course:
    return Course(Progress.UNDER_WAY, cause)


def _given_up(cause: Cause) -> Course:
    return Course(Progress.GIVEN_UP, cause)

"""What a DecisionModel declares, read once per version of it; and how it is told that it cannot be read.

An object that an earlier version of the API let in may break the rules of today's, or be too large to be looked at. It
is left alone with all that serves, and its conditions say why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from api.bounds import MOST_TEXT, MOST_VALUES
from api.conditions import Condition, ConditionType, EventReason, Phase, Reason, set_condition
from api.decisionmodel import DecisionModel
from reconciler.controller.trimming import oversize_parts
from reconciler.kernel.resources import KubernetesObject, ObjectKey, object_key, object_uid, resource_version

_MOST_PROBLEMS: Final = 3
_LONGEST_PROBLEM: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Why a DecisionModel is left alone until it changes."""

    reason: Reason
    event: EventReason
    message: str


class Declarations:
    """The DecisionModels as they were read last; an object is validated again only when its version has changed."""

    def __init__(self) -> None:
        self._read: dict[ObjectKey, tuple[str, str, DecisionModel | Unreadable]] = {}

    def read(self, obj: KubernetesObject) -> DecisionModel | Unreadable:
        """Return what a trimmed object declares, or why that cannot be told."""
        key, uid, version = object_key(obj), object_uid(obj), resource_version(obj)
        known = self._read.get(key)
        if known is not None and known[:2] == (uid, version):
            return known[2]
        read = _read(obj)
        self._read[key] = (uid, version, read)
        return read

    def forget(self, key: ObjectKey) -> None:
        """Drop what is remembered of an object that is gone."""
        self._read.pop(key, None)


def _read(obj: KubernetesObject) -> DecisionModel | Unreadable:
    if parts := oversize_parts(obj):
        return _too_large(f"{' and '.join(parts)} of the object")
    try:
        return DecisionModel.model_validate(obj)
    except ValidationError as error:
        problems = [_problem(each["loc"], each["msg"]) for each in error.errors(include_input=False, include_url=False)]
        more = f", and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
        message = f"the object does not fit the declared API: {'; '.join(problems[:_MOST_PROBLEMS])}{more}"
        return Unreadable(reason=Reason.OBJECT_INVALID, event=EventReason.OBJECT_INVALID, message=message)


def _problem(location: Iterable[str | int], message: str) -> str:
    return f"{'.'.join(map(str, location))}: {message}"[:_LONGEST_PROBLEM]


def _too_large(what: str) -> Unreadable:
    message = (
        f"{what} exceeds {MOST_VALUES} values or {MOST_TEXT} characters: it is left alone, with all that serves, until"
        " it is smaller"
    )
    return Unreadable(reason=Reason.OBJECT_TOO_LARGE, event=EventReason.OBJECT_TOO_LARGE, message=message)


def oversize_child(children: Iterable[KubernetesObject], uid: str) -> Unreadable | None:
    """Return why a DecisionModel cannot be tended: one of the oversize children is its own."""
    for child in children:
        references = child["metadata"].get("ownerReferences") or ()
        if any(each.get("uid") == uid and each.get("controller") for each in references):
            return _too_large(f"{child['kind']} {child['metadata']['name']}")
    return None


def told(obj: KubernetesObject, problem: Unreadable, now: datetime) -> dict[str, Any]:
    """Return the merge patch of the status that tells a problem; empty when it is told already.

    The phase stays where a rollout has begun, for its deadline counts from there.
    """
    status = obj.get("status") or {}
    before = _conditions(status)
    serves = "stableRevision" in status
    conditions = before
    for type_, holds in ((ConditionType.RESOLVED, "False"), _summary(serves=serves)):
        condition = Condition(
            type=type_,
            status=holds,
            reason=problem.reason,
            message=problem.message,
            observed_generation=obj["metadata"].get("generation", 0),
        )
        conditions = set_condition(conditions, condition, now)
    if conditions == before:
        return {}
    failed = not serves and "candidateRevision" not in status and status.get("phase") != Phase.FAILED
    phase = {"phase": Phase.FAILED, "phaseTransitionTime": _stamp(now)} if failed else {}
    return {"conditions": [each.dump() for each in conditions], **phase}


def _summary(*, serves: bool) -> tuple[ConditionType, Any]:
    return (ConditionType.DEGRADED, "True") if serves else (ConditionType.READY, "False")


def _stamp(now: datetime) -> str:
    return f"{now.replace(tzinfo=None, microsecond=0).isoformat()}Z"


def _conditions(status: dict[str, Any]) -> tuple[Condition, ...]:
    try:
        return tuple(Condition.model_validate(each) for each in status.get("conditions") or ())
    except ValidationError:
        return ()  # What was told in a form that nobody knows is told anew.

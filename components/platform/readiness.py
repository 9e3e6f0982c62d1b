"""Whether models are ready: the last step of an update, and what `dmctl wait` waits for.

The engine could wait by itself (`pulumi.com/waitFor`), but it takes a condition of an earlier generation for an answer,
does not look when nothing changed, and never says what the condition was (spec pulumi, section 4.1).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from api.conditions import ConditionType, Phase, find_condition
from api.decisionmodel import DecisionModel
from api.status import DecisionModelStatus
from components.desired import JsonObject
from components.errors import ComponentsError

POLL_SECONDS: Final = 2.0

_REJECTED: Final = frozenset({Phase.FAILED, Phase.ROLLED_BACK})

ReadModel = Callable[[str, str], Awaitable[JsonObject | None]]
"""Reads a DecisionModel by namespace and name; None when there is none."""


class ModelsNotReadyError(ComponentsError):
    """Models are not ready; the message has a line for each, with its phase and condition."""


class Progress(StrEnum):
    """How far a model is, from the point of view of whoever waits for it."""

    READY = "ready"
    AWAITING_APPROVAL = "awaiting approval"
    UNDER_WAY = "under way"
    REJECTED = "rejected"
    """Nothing more happens until somebody changes something."""


# A rollout that waits for a person has done all that an update can ask of it.
_DONE_FOR_AN_UPDATE: Final = frozenset({Progress.READY, Progress.AWAITING_APPROVAL})


@dataclass(frozen=True, slots=True)
class Verdict:
    """A model's progress, and what to tell about it."""

    progress: Progress
    message: str


_ABSENT: Final = Verdict(Progress.UNDER_WAY, "does not exist")
_UNSEEN: Final = Verdict(Progress.UNDER_WAY, "not looked at yet: is the reconciler running, and does it watch here?")


def judge(live: JsonObject | None) -> Verdict:
    """Say how far a model is with the spec that it has now; what its status says of an earlier one counts nothing."""
    if live is None:
        return _ABSENT
    model = DecisionModel.model_validate(live)
    if model.status.observed_generation < (live["metadata"].get("generation") or 0) or model.status.phase is None:
        return _UNSEEN
    return Verdict(_progress(model.status), _told(model))


def _progress(status: DecisionModelStatus) -> Progress:
    if status.phase is Phase.AWAITING_PROMOTION:
        return Progress.AWAITING_APPROVAL
    if status.phase in _REJECTED or _holds(status, ConditionType.STALLED):
        return Progress.REJECTED
    # A reconciler of an earlier version, which this very update may replace, has neither condition.
    if status.phase is Phase.READY and not _holds(status, ConditionType.RECONCILING):
        return Progress.READY
    return Progress.UNDER_WAY


def _holds(status: DecisionModelStatus, type_: ConditionType) -> bool:
    found = find_condition(status.conditions, type_)
    return found is not None and found.status == "True"


def _told(model: DecisionModel) -> str:
    conditions = model.status.conditions
    for type_ in (ConditionType.STALLED, ConditionType.RECONCILING):
        course = find_condition(conditions, type_)
        if course is not None and course.status == "True":
            return f"{model.status.phase}, {course.reason}: {course.message}"
    # A rejected candidate leaves Ready alone while the stable revision serves; Degraded says what was wrong with it.
    degraded = find_condition(conditions, ConditionType.DEGRADED)
    rejected = model.status.phase in _REJECTED and degraded is not None and degraded.status == "True"
    shown = degraded if rejected else find_condition(conditions, ConditionType.READY)
    if shown is None:
        return str(model.status.phase)
    return f"{model.status.phase}, {shown.type}={shown.status} {shown.reason}: {shown.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How to wait: the cluster, time, and whom to tell about changes on the way.

    Attributes:
        read: reads a model.
        sleep: pauses for seconds.
        clock: monotonic seconds.
        report: told a line whenever a model's verdict changes.
    """

    read: ReadModel
    sleep: Callable[[float], Awaitable[None]]
    clock: Callable[[], float]
    report: Callable[[str], None]


async def wait_until_ready(models: Iterable[tuple[str, str]], waiting: Waiting, timeout_seconds: float) -> None:
    """Return once every model, given as namespace and name, is ready or waits for a person.

    Raises:
        ModelsNotReadyError: some were rejected, or were still under way at the end of the time.
    """
    going_on = frozenset({Progress.UNDER_WAY})
    _require_ready(await follow(models, waiting, timeout_seconds, going_on), timeout_seconds)


async def follow(
    models: Iterable[tuple[str, str]], waiting: Waiting, timeout_seconds: float, going_on: Collection[Progress]
) -> dict[tuple[str, str], Verdict]:
    """Look at models, reporting each change, until none is `going_on` or the time is over; return how far they are."""
    end = waiting.clock() + timeout_seconds
    verdicts: dict[tuple[str, str], Verdict] = {}
    pending = [*models]
    while pending:
        for model in pending:
            verdict = judge(await waiting.read(*model))
            if verdicts.get(model) != verdict:
                waiting.report(_line(model, verdict))
            verdicts[model] = verdict
        pending = [model for model in pending if verdicts[model].progress in going_on]
        if pending and waiting.clock() >= end:
            break
        if pending:
            await waiting.sleep(POLL_SECONDS)
    return verdicts


def _require_ready(verdicts: Mapping[tuple[str, str], Verdict], timeout_seconds: float) -> None:
    failed = {model: verdict for model, verdict in verdicts.items() if verdict.progress not in _DONE_FOR_AN_UPDATE}
    if failed:
        lines = (_line(model, verdict) for model, verdict in failed.items())
        raise ModelsNotReadyError("\n  ".join([f"not ready within {timeout_seconds:g} s:", *lines]))


def _line(model: tuple[str, str], verdict: Verdict) -> str:
    return f"DecisionModel {'/'.join(model)}: {verdict.message}"

"""How a rollout ends when it fails: the reconciler's own decisions at each deadline. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from api.conditions import Phase
from cli.forecast.rehearsal import Pass, deadline, rehearse
from reconciler.rollout import Facts

_STAGES: Final = (Phase.CACHING, Phase.STARTING, Phase.EVALUATING)


class Impact(StrEnum):
    """What clients notice of the worst case."""

    UNTOUCHED = "Untouched"
    """The serving revision answers all the time."""
    INTERRUPTED = "Interrupted"
    """The serving revision is stopped, and started again in the end."""
    NOTHING_SERVES = "NothingServes"
    """Nothing serves yet, and nothing will."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A rollout that a stage does not get past: what it is rejected with, and where that leaves the DecisionModel."""

    stage: Phase
    seconds: float
    """The stage's deadline."""
    reason: str
    phase: Phase | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstCase:
    """The end of a rollout of which every stage takes its whole deadline, and the last one fails."""

    endings: tuple[Ending, ...]
    """By stage, in their order."""
    impact: Impact
    outage_seconds: float = 0.0
    """How long nothing serves at most, until the previous revision is started again; 0 when it never stops."""
    waits_for_approval: bool = False
    """Without any deadline, in between."""
    watched_seconds: float = 0.0
    """How long after its promotion an unhealthy revision is still rolled back."""

    @property
    def seconds(self) -> float:
        """From the start to the rejection, approval not counted."""
        return sum(each.seconds for each in self.endings)


def worst_case(facts: Facts, smooth: tuple[Pass, ...]) -> WorstCase:
    """Play the rollout through once for each stage that it enters, failing there."""
    entered = [stage for stage in _STAGES if any(each.phase is stage for each in smooth)]
    failing = {stage: rehearse(facts, stuck_in=stage) for stage in entered}
    rollout, stable = facts.model.spec.rollout, facts.model.status.stable_revision
    endings = tuple(_ending(facts, stage, passes) for stage, passes in failing.items())
    stopping = [ending.seconds for ending in endings if ending.stage is not Phase.CACHING]
    stopped = stable is not None and any(_stops(each, stable.hash) for each in smooth)
    return WorstCase(
        endings=endings,
        impact=_impact(serving=stable is not None, stopped=stopped),
        outage_seconds=sum(stopping) if stopped else 0.0,
        waits_for_approval=any(each.phase is Phase.AWAITING_PROMOTION for each in smooth),
        watched_seconds=rollout.stabilization_window.total_seconds() if stable is not None else 0.0,
    )


def _stops(each: Pass, revision: str) -> bool:
    plans = () if each.decision.stack is None else each.decision.stack.revisions
    return any(plan.stopped and plan.revision.hash == revision for plan in plans)


def _impact(*, serving: bool, stopped: bool) -> Impact:
    if not serving:
        return Impact.NOTHING_SERVES
    return Impact.INTERRUPTED if stopped else Impact.UNTOUCHED


def _ending(facts: Facts, stage: Phase, passes: tuple[Pass, ...]) -> Ending:
    final = passes[-1].decision.status
    failed = final.failed_revision
    limit = deadline(facts.model.spec.rollout.timeouts, stage)
    return Ending(
        stage=stage,
        seconds=0.0 if limit is None else limit.total_seconds(),
        reason="" if failed is None else failed.reason,
        phase=final.phase,
    )

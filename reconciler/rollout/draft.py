"""The status of one pass while it is being decided.

A `Draft` starts from the persisted status and collects changes, Events and counters; it lives within one call of
`decide` and is never seen outside it. Everything it writes is derived from the facts, so deciding stays pure.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from api.conditions import Condition, ConditionType, EventReason, Phase, Reason, find_condition, remove_condition
from api.conditions import set_condition as merge_condition
from api.keys import RUNTIME_PORT
from api.status import DecisionModelStatus, RevisionStatus
from reconciler.rollout import timing
from reconciler.rollout.course import Progress, course_of
from reconciler.rollout.decision import Decision, EventNote, ReadyPods, RolloutResult, StackPlan, StoreGrowth
from reconciler.rollout.facts import Facts

_COURSES = {ConditionType.RECONCILING: Progress.UNDER_WAY, ConditionType.STALLED: Progress.GIVEN_UP}


def short(digest: str) -> str:
    """Return the part of a digest that people read."""
    return digest[:8]


class Draft:
    """Changes to the status of the DecisionModel in `facts`, and what is to be said about them."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.spec = facts.model.spec
        self._before = facts.model.status
        metadata = facts.model.metadata
        self.status: DecisionModelStatus = self._before.model_copy(
            update={
                "endpoint": f"http://{metadata.name}.{metadata.namespace}.svc:{RUNTIME_PORT}/v1/systemone",
                "observed_generation": metadata.generation,
            }
        )
        self._events: list[EventNote] = []
        self._results: list[RolloutResult] = []
        self._discarded_jobs: list[str] = []
        self._growth: StoreGrowth | None = None
        self._approval_consumed = False
        self._repair_manifest = False
        self._rests_on: ReadyPods | None = None

    @property
    def stable(self) -> RevisionStatus | None:
        """The revision that serves."""
        return self.status.stable_revision

    @property
    def candidate(self) -> RevisionStatus | None:
        """The revision being rolled out."""
        return self.status.candidate_revision

    @property
    def generation(self) -> int:
        """The generation of the spec this pass looked at."""
        return self.facts.model.metadata.generation

    def update(self, **fields: Any) -> None:
        """Replace fields of the status."""
        self.status = self.status.model_copy(update=fields)

    def enter(self, phase: Phase) -> None:
        """Move to `phase`; the clock of its deadline starts when the phase changes."""
        if self.status.phase == phase:
            return
        self.update(phase=phase, phase_transition_time=self.facts.now)

    def seconds_in_phase(self) -> float:
        """Return how long the persisted phase has lasted, in seconds."""
        since = self.status.phase_transition_time
        return 0.0 if since is None else (self.facts.now - since).total_seconds()

    def has_outlasted(self, phase: Phase, deadline: timedelta, *, counted_from: datetime | None = None) -> bool:
        """Whether `phase` is the persisted one and has lasted longer than `deadline`; strictly, as specified.

        Args:
            phase: The phase.
            deadline: How long it may last.
            counted_from: From when on it counts, if that is later than the phase.
        """
        if self.status.phase != phase:
            return False
        waited = 0.0 if counted_from is None else (self.facts.now - counted_from).total_seconds()
        lasted = self.seconds_in_phase() if counted_from is None else min(waited, self.seconds_in_phase())
        return lasted > deadline.total_seconds()

    def condition(self, type_: ConditionType, reason: Reason, message: str = "", *, holds: bool) -> bool:
        """Set a condition; return whether its status or reason is new, so that an Event is due."""
        before = find_condition(self.status.conditions, type_)
        wanted = Condition(
            type=type_,
            status="True" if holds else "False",
            reason=reason,
            message=message,
            observed_generation=self.generation,
        )
        self.update(conditions=merge_condition(self.status.conditions, wanted, self.facts.now))
        return before is None or (before.status, before.reason) != (wanted.status, wanted.reason)

    def degrade(self, reason: Reason, message: str) -> bool:
        """Set `Degraded`, whatever else this pass said about it; return whether the reason is new to its readers."""
        persisted = find_condition(self._before.conditions, ConditionType.DEGRADED)
        if persisted is not None and find_condition(self.status.conditions, ConditionType.DEGRADED) is None:
            # It held all the time: its clock goes on.
            self.update(conditions=(*self.status.conditions, persisted))
        self.condition(ConditionType.DEGRADED, reason, message, holds=True)
        return persisted is None or persisted.reason != reason

    @property
    def degraded(self) -> bool:
        """Whether this pass reports something as degraded already."""
        return find_condition(self.status.conditions, ConditionType.DEGRADED) is not None

    def forget(self, *types: ConditionType) -> None:
        """Remove conditions that no longer say anything."""
        conditions = self.status.conditions
        for type_ in types:
            conditions = remove_condition(conditions, type_)
        self.update(conditions=conditions)

    def _describe_course(self) -> Reason:
        """Set `Reconciling` and `Stalled` from all that was decided; return the reason of both."""
        course = course_of(self.facts, self.status)
        for type_, progress in _COURSES.items():
            self.condition(type_, course.cause.reason, course.cause.message, holds=course.progress is progress)
        return course.cause.reason

    def event(self, reason: EventReason, note: str, *, occasion: str = "") -> None:
        """Say something, once the status that goes with it is persisted."""
        self._events.append(EventNote(reason=reason, note=note, occasion=occasion))

    def count(self, result: RolloutResult) -> None:
        """Count the end of a rollout, once the status that goes with it is persisted."""
        self._results.append(result)

    def discard(self, job_uid: str) -> None:
        """Have a Job deleted, so that it runs again."""
        self._discarded_jobs.append(job_uid)

    def grow(self, growth: StoreGrowth) -> None:
        """Have a store grow."""
        self._growth = growth

    def repair_manifest(self) -> None:
        """Have the candidate's manifest ConfigMap made again."""
        self._repair_manifest = True

    def consume_approval(self) -> None:
        """Have the promote annotation removed: what it approves is persisted."""
        self._approval_consumed = True

    def rest_on(self, pods: ReadyPods) -> None:
        """Have it confirmed that the Pods are there on the strength of which traffic moves."""
        self._rests_on = pods

    def decided(
        self,
        *,
        stack: StackPlan | None,
        resolve: bool = False,
        probe: tuple[str, ...] = (),
        evaluate: bool = False,
        requeue_after: float | None = None,
    ) -> Decision:
        """Close the draft: say how far the model is, and look again soon at what a new spec has set going."""
        if self._describe_course() is Reason.APPLYING and self.facts.is_new_spec:
            requeue_after = timing.RECHECK_NEW_SPEC
        return Decision(
            status=self.status,
            stack=stack,
            events=tuple(self._events),
            results=tuple(self._results),
            resolve=resolve,
            probe=probe,
            discarded_jobs=tuple(self._discarded_jobs),
            growth=self._growth,
            evaluate=evaluate,
            repair_manifest=self._repair_manifest,
            approval_consumed=self._approval_consumed,
            rests_on=self._rests_on,
            requeue_after=requeue_after,
        )

"""Runs the real decision code on abstract states, and gives every persisted status a number.

Equal questions are asked once: a state machine without I/O may be remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from api.conditions import EventReason, Reason
from api.decisionmodel import DecisionModel
from api.status import DecisionModelStatus, RevisionStatus
from reconciler.controller.evaluation_subject import SCORED_PHASES
from reconciler.controller.observation import Past
from reconciler.controller.revisions import past_of
from reconciler.rollout import (
    ClaimFacts,
    Decision,
    EvaluationFacts,
    Facts,
    PrefetchFacts,
    PrefetchState,
    Refusal,
    RevisionFacts,
    StoreState,
    Unrecorded,
    approval,
)
from reconciler.rollout.promotion import recent_promotion
from reconciler.rollout.retention import known_revisions
from tools.model_checker import clock
from tools.model_checker.cluster import NOTHING, Cluster, Job, Objects, Store
from tools.model_checker.obstacle import Obstacle
from tools.model_checker.plan import Plan, plan_of
from tools.model_checker.scenario import INDEX, REVISIONS, Registry, Spec, answer, model_of, resolution
from tools.model_checker.scoring import Scoring, scoring_facts
from tools.model_checker.serving import serving_facts
from tools.model_checker.slot import Slot
from tools.model_checker.state import State

_NOT_ALLOWED = Refusal(reason=Reason.REGISTRY_NOT_ALLOWED, message="the registry is not allowed")
_UNREADABLE = Refusal(reason=Reason.API_KEY_INVALID, message="the Secret is missing")

Decide = Callable[[Facts], Decision]

_CLAIM: Final = "claim"
_ANOTHER_CLAIM: Final = "another claim"
_RECORDS: Final = ("stable_revision", "candidate_revision", "failed_revision")

_STORES = {
    Store.ABSENT: StoreState.ABSENT,
    Store.PRESENT: StoreState.PRESENT,
    Store.RECOVERING: StoreState.RECOVERING,
    Store.TERMINATING: StoreState.TERMINATING,
}
_JOBS = {
    Job.ABSENT: PrefetchFacts(),
    Job.RUNNING: PrefetchFacts(state=PrefetchState.RUNNING),
    Job.EXPIRED: PrefetchFacts(state=PrefetchState.RUNNING, expired=True),
    Job.COMPLETE: PrefetchFacts(state=PrefetchState.COMPLETE),
    Job.FAILED: PrefetchFacts(state=PrefetchState.FAILED, failure="Transient"),
    Job.FAILED_FOR_GOOD: PrefetchFacts(state=PrefetchState.FAILED, failure="DigestMismatch", permanent=True),
}


class Question(NamedTuple):
    """All that a pass over a status, given by its number, can know."""

    spec: Spec
    answer: int | Registry
    status: int
    view: Cluster
    switching_to: int | None
    broken: bool
    scoring: Scoring
    slot: Slot
    obstacle: Obstacle


class Verdict(NamedTuple):
    """What a pass decides, in the scenario's terms.

    Attributes:
        status: The new status.
        plan: What the stack should hold; None where it must stay as it is.
        promotes: The revision that becomes the stable by promotion.
        rests_on: The revision, and how many ready Pods of it, on the strength of which traffic moves.
        condemns: The revision that is taken back after its promotion.
        tells: How many `Promoted` Events there are; -1 if one is not of the occasion that the new status records.
        discards: Jobs (revision, UID) that are to run again.
        consumes_approval: Whether the annotation goes.
        scores: The candidate that is to be scored.
        names: The revisions whose record names, as filled, the claim that is there.
    """

    status: int
    plan: Plan | None
    promotes: int | None
    rests_on: tuple[int, int] | None
    condemns: int | None
    tells: int
    discards: tuple[tuple[int, int], ...]
    consumes_approval: bool
    scores: int | None
    names: tuple[int, ...]


class Known(NamedTuple):
    """The revisions that a status names; `target` is the one that a staged rollback goes back to."""

    stable: int | None
    candidate: int | None
    previous: int | None
    failed: int | None
    target: int | None

    @property
    def selectable(self) -> tuple[int | None, ...]:
        """The revisions that the Service may select: all but the candidate."""
        return (self.stable, self.previous, self.failed, self.target)


class Judge:
    """Decides with `decide`, which is the real one unless a test puts a faulty one in its place."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._statuses: list[DecisionModelStatus] = []
        self._numbers: dict[str, int] = {}
        self._verdicts: dict[Question, Verdict] = {}
        self._answers: dict[tuple[Spec, Registry, int, int | None], int | Registry] = {}
        self._aged: dict[tuple[int, int], int] = {}
        self._known: dict[int, Known] = {}
        self._number(DecisionModelStatus(), 0)

    def status(self, number: int) -> DecisionModelStatus:
        """Return the status of a number."""
        return self._statuses[number]

    def holds_a_slot(self, number: int, spec: Spec) -> bool:
        """Whether a rollout is under way, or the window after it; not while it only waits for a person."""
        known = self.known(number)
        rolls_out = known.candidate is not None and not approval.is_asked_for(self._statuses[number])
        return rolls_out or (known.previous is not None and spec.window)

    def known(self, number: int) -> Known:
        """Return the revisions that a status names."""
        found = self._known.get(number)
        if found is None:
            status = self._statuses[number]
            previous, rollback = status.previous_revision, status.recreate_rollback
            found = self._known[number] = Known(
                stable=_index(status.stable_revision),
                candidate=_index(status.candidate_revision),
                previous=None if previous is None else _index(previous.revision),
                failed=_index(status.failed_revision),
                target=None if rollback is None else _index(rollback.target),
            )
        return found

    def later(self, number: int, seconds: int) -> int:
        """Return the status as it looks `seconds` later."""
        key = (number, seconds)
        if key not in self._aged:
            self._aged[key] = self._number(self._statuses[number], seconds)
        return self._aged[key]

    def retells(self, number: int) -> bool:
        """Whether a process that starts now tells the last promotion again."""
        status = self._statuses[number]
        note, at = recent_promotion(status, clock.NOW), status.last_promotion_time
        return note is not None and at is not None and note.occasion == at.isoformat()

    def lost(self, number: int) -> int:
        """Return the status after somebody emptied it."""
        return self._number(DecisionModelStatus(), 0) if number else number

    def verdict(self, state: State, view: Cluster) -> Verdict:
        """Decide about the DecisionModel of a state, with `view` of its objects."""
        status, answered = state.status, self._answer(state, view)
        looked_at = {answered, view.service, *self.known(status)}
        seen = tuple(
            _seen(objects, past_of(self._statuses[status], REVISIONS[index].hash)) if index in looked_at else NOTHING
            for index, objects in enumerate(view.revisions)
        )
        question = Question(
            spec=state.spec,
            answer=answered,
            status=status,
            view=Cluster(seen, view.service),
            switching_to=None if state.operation is None else state.operation.selected,
            broken=state.broken,
            scoring=state.scoring,
            slot=state.slot,
            obstacle=state.obstacle,
        )
        if question not in self._verdicts:
            self._verdicts[question] = self._judge(question)
        return self._verdicts[question]

    def _answer(self, state: State, view: Cluster) -> int | Registry:
        key = (state.spec, state.registry, state.status, view.service)
        if key not in self._answers:
            selected = None if view.service is None else REVISIONS[view.service].hash
            self._answers[key] = answer(state.spec, state.registry, self._statuses[state.status], selected)
        return self._answers[key]

    def _judge(self, question: Question) -> Verdict:
        before, view = self._statuses[question.status], question.view
        model = model_of(question.spec, before)
        revisions = {each.hash: _facts(question, model, index) for index, each in enumerate(REVISIONS)}
        selected = None if view.service is None else REVISIONS[view.service]
        decision = self._decide(
            Facts(
                now=clock.NOW,
                model=model,
                preflight=_NOT_ALLOWED if question.obstacle is Obstacle.MODEL else None,
                resolution=None if question.obstacle is Obstacle.MODEL else resolution(question.answer),
                refusals=(_UNREADABLE,) if question.obstacle is Obstacle.KEY else (),
                revisions=revisions,
                service_selects=None if selected is None else selected.hash,
                switching_to=None if question.switching_to is None else REVISIONS[question.switching_to].hash,
                unrecorded=_unrecorded(before, selected, revisions),
                evaluation=_evaluation(question, before),
                rollout_limit=0 if question.slot is Slot.UNLIMITED else 1,
                admitted=question.slot is Slot.FREE,
                stack_failure="EngineFailed: injected" if question.broken else None,
            )
        )
        after = decision.status
        promoted_at = "" if after.last_promotion_time is None else after.last_promotion_time.isoformat()
        told = [event for event in decision.events if event.reason is EventReason.PROMOTED]
        return Verdict(
            status=self._number(after, 0),
            plan=None if decision.stack is None else plan_of(decision.stack, many=question.spec.scaled),
            promotes=_promoted(before, after, view.service),
            rests_on=_premise(decision),
            condemns=_condemned(before, after),
            tells=len(told) if all(event.occasion == promoted_at for event in told) else -1,
            discards=tuple(_job(uid) for uid in decision.discarded_jobs),
            consumes_approval=decision.approval_consumed,
            scores=_index(after.candidate_revision) if decision.evaluate else None,
            names=tuple(
                INDEX[each.hash]
                for each in known_revisions(after)
                if (claim := revisions[each.hash].claim) is not None and claim.uid == each.verified_store
            ),
        )

    def _number(self, status: DecisionModelStatus, seconds: int) -> int:
        status = _renamed(clock.aged(status, seconds))
        text = status.model_dump_json(exclude_defaults=True)
        number = self._numbers.setdefault(text, len(self._statuses))
        if number == len(self._statuses):
            self._statuses.append(status)
        return number


def _index(record: RevisionStatus | None) -> int | None:
    return None if record is None else INDEX[record.hash]


def _promoted(before: DecisionModelStatus, after: DecisionModelStatus, service: int | None) -> int | None:
    """Return the revision that was promoted: the way back is none, nor is a record of what is selected already."""
    old, new = _index(before.stable_revision), _index(after.stable_revision)
    went_back = old is not None and _index(after.failed_revision) == old
    previous = before.previous_revision
    steps_back = previous is not None and _index(previous.revision) == new and after.previous_revision is None
    return None if new in (old, service) or went_back or steps_back else new


def _condemned(before: DecisionModelStatus, after: DecisionModelStatus) -> int | None:
    """Return the stable that is recorded as failed, or begins to be."""
    old, rollback = _index(before.stable_revision), after.recreate_rollback
    if old is None or before.recreate_rollback is not None:
        return None
    failed = _index(after.failed_revision) if rollback is None else _index(rollback.failed)
    return old if failed == old else None


def _premise(decision: Decision) -> tuple[int, int] | None:
    premise = decision.rests_on
    return None if premise is None else (INDEX[premise.revision], premise.count)


def _seen(objects: Objects, past: Past) -> Objects:
    """Return the objects as a pass sees them.

    That the store is another than the recorded one speaks against it as the mark does; where none is recorded, that the
    store of what has proved itself is younger than the last promotion.
    """
    another = not objects.recorded if past.verified_store else past.proved_before is not None and objects.renewed
    unmarked = another and not (objects.job is Job.COMPLETE and not objects.stale)
    store = Store.RECOVERING if unmarked and objects.store is Store.PRESENT else objects.store
    recorded = objects.recorded and bool(past.verified_store)
    return objects._replace(store=store, filled=False, renewed=False, recorded=recorded, proved=False)


def _unrecorded(
    status: DecisionModelStatus, selected: RevisionStatus | None, revisions: Mapping[str, RevisionFacts]
) -> Unrecorded | None:
    """Return what the Service selects and the status does not name; what is live always tells enough."""
    if selected is None or selected.hash in {each.hash for each in known_revisions(status)}:
        return None
    return Unrecorded(record=selected) if revisions[selected.hash].serving.exists else None


def _renamed(status: DecisionModelStatus) -> DecisionModelStatus:
    """Return the status with one UID for every recorded claim: whether it is the one there, `Objects.recorded` says."""

    def renamed(record: Any) -> Any:
        return record and record.model_copy(update={"verified_store": record.verified_store and _CLAIM})

    previous, rollback = status.previous_revision, status.recreate_rollback
    if previous is not None:
        previous = previous.model_copy(update={"revision": renamed(previous.revision)})
    if rollback is not None:
        both = {"failed": renamed(rollback.failed), "target": renamed(rollback.target)}
        rollback = rollback.model_copy(update=both)
    records = {each: renamed(getattr(status, each)) for each in _RECORDS}
    return status.model_copy(update={**records, "previous_revision": previous, "recreate_rollback": rollback})


def _evaluation(question: Question, status: DecisionModelStatus) -> EvaluationFacts | None:
    candidate = status.candidate_revision
    if not question.spec.evaluated or candidate is None or status.phase not in SCORED_PHASES:
        return None
    return scoring_facts(question.scoring, INDEX[candidate.hash], candidate.hash)


def _facts(question: Question, model: DecisionModel, index: int) -> RevisionFacts:
    objects = question.view.revisions[index]
    job = _JOBS[objects.job]
    if objects.job is not Job.ABSENT:
        job = PrefetchFacts(
            state=job.state,
            uid=f"{index}-{objects.job_uid}",
            stale=objects.stale,
            expired=job.expired,
            failure=job.failure,
            permanent=job.permanent,
        )
    past = past_of(model.status, REVISIONS[index].hash)
    return RevisionFacts(
        store=_STORES[objects.store],
        claim=None if objects.store is Store.ABSENT else _claim(model, objects, past),
        verified=objects.recorded and bool(past.verified_store),
        prefetch=job,
        serving=serving_facts(objects),
    )


def _claim(model: DecisionModel, objects: Objects, past: Past) -> ClaimFacts:
    cache = model.spec.cache
    uid = _CLAIM if objects.recorded or not past.verified_store else _ANOTHER_CLAIM
    return ClaimFacts(uid=uid, size=str(cache.size), access_modes=cache.effective_access_modes)


def _job(uid: str) -> tuple[int, int]:
    index, _, number = uid.partition("-")
    return int(index), int(number)

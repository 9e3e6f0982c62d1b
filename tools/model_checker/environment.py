"""Everything that happens around the reconciler: ordinary progress, and disturbances."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from api.status import EvaluationResult
from tools.model_checker import clock
from tools.model_checker.cluster import (
    NOTHING,
    Job,
    Objects,
    Pods,
    Store,
    evicted,
    with_deployment,
    with_pods,
    without_job,
    without_store,
)
from tools.model_checker.judge import Judge
from tools.model_checker.obstacle import Obstacle
from tools.model_checker.passes import restarted, settled
from tools.model_checker.plan import next_writes
from tools.model_checker.properties import write_violation
from tools.model_checker.scenario import MODELS, NAMES, REVISIONS, Registry
from tools.model_checker.scoring import Dataset
from tools.model_checker.slot import Slot
from tools.model_checker.state import State
from tools.model_checker.step import Step

TICKS = (31, 301, 1801)
"""Steps of the clock in seconds: beyond grace and debounce, beyond the window, beyond every deadline."""
_STORE_DELETED = "store deleted by a person"
RETRIES = 1
"""How often the retry annotation is set at most."""


class Move(StrEnum):
    """What the cluster does by itself."""

    JOB_DONE = "Job done"
    POD_READY = "one more Pod ready"
    PODS_STOPPED = "Pods stopped"
    STORE_GONE = "store gone"


def progress(judge: Judge, state: State) -> Iterator[Step]:
    """Yield what happens by itself: the engine's writes, Jobs that end well, Pods that become ready, time."""
    yield from engine_writes(judge, state)
    for index, objects in enumerate(state.cluster.revisions):
        for what, after in moves(objects):
            yield Step(f"{what} of {NAMES[index]}", state._replace(cluster=state.cluster.with_revision(index, after)))
    scored = state.scoring.ended(EvaluationResult.PASSED)
    if scored != state.scoring:
        yield Step("the candidate passes", state._replace(scoring=scored))
    if state.slot is Slot.TAKEN:
        yield Step("the slot becomes free", state._replace(slot=Slot.FREE))
    for seconds in TICKS:
        yield Step(f"{seconds} s pass", elapsed(judge, state, seconds))
    if state.seen is not None:
        yield Step("the watch comes back", state._replace(seen=None))


def engine_writes(judge: Judge, state: State) -> Iterator[Step]:
    """Yield the next writes of the operation in flight, or its end when others have done what was left."""
    if state.operation is None:
        return
    writes = next_writes(state.operation, state.cluster)
    if not writes:
        yield Step("engine: nothing left", settled(state, state.operation))
    for write in writes:
        after = settled(state._replace(cluster=write.cluster), state.operation)
        yield Step(f"engine: {write.label}", after, violation=write_violation(judge, state, write))


def elapsed(judge: Judge, state: State, seconds: int) -> State:
    """Return the state some time later; a Job's own deadline is the longest."""
    cluster = state.cluster
    if seconds == TICKS[-1]:
        for index, objects in enumerate(cluster.revisions):
            if objects.job is Job.RUNNING:
                cluster = cluster.with_revision(index, objects._replace(job=Job.EXPIRED))
    status = judge.later(state.status, seconds)
    # No process was there to tell the promotion within the time that one tells it again.
    forgiven = state.owed and not state.known and not judge.retells(status)
    return state._replace(status=status, cluster=cluster, owed=state.owed and not forgiven)


def moves(objects: Objects) -> Iterator[tuple[Move, Objects]]:
    """Yield what the cluster does about a revision's objects by itself."""
    if objects == NOTHING:
        return
    usable = objects.store in (Store.PRESENT, Store.RECOVERING)
    if objects.job is Job.RUNNING and objects.store is not Store.ABSENT:
        yield Move.JOB_DONE, objects._replace(job=Job.COMPLETE, filled=not objects.stale or objects.filled)
    starts = objects.deployment and not objects.stopped and objects.filled and usable
    if starts and objects.pods is not Pods.ALL_READY:
        more = Pods.ALL_READY if objects.ready else Pods.ONE_READY
        yield Move.POD_READY, with_pods(objects, more)
    if objects.stopped and objects.has_pods:
        yield Move.PODS_STOPPED, objects._replace(pods=Pods.NONE)
    if objects.store is Store.TERMINATING and not objects.mounted:
        yield Move.STORE_GONE, without_store(objects)


def disturbances(judge: Judge, state: State) -> Iterator[Step]:
    """Yield what somebody or something does to the run."""
    for label, after in _disturbed(judge, state):
        if after != state:
            yield Step(label, after, disturbs=True)


def _disturbed(judge: Judge, state: State) -> Iterator[tuple[str, State]]:
    yield from _edits(judge, state)
    yield from _faults(judge, state)
    yield from _rivals(judge, state)
    for index, objects in enumerate(state.cluster.revisions):
        for what, changed in _harm(objects):
            yield f"{what} of {NAMES[index]}", state._replace(cluster=state.cluster.with_revision(index, changed))
    yield "Service deleted by a person", state._replace(cluster=state.cluster._replace(service=None))


def _edits(judge: Judge, state: State) -> Iterator[tuple[str, State]]:
    spec = state.spec
    edited = {f"spec asks for {NAMES[model]}": spec._replace(model=model) for model in range(len(MODELS))}
    if not spec.recreate:
        # The API refuses both together.
        edited["promotion policy changed"] = spec._replace(manual=not spec.manual)
    if spec.recreate is not None and not spec.manual:
        edited["strategy changed"] = spec._replace(recreate=not spec.recreate)
    edited["stabilization window changed"] = spec._replace(window=not spec.window)
    edited["scaled up"] = spec._replace(scaled=True)
    if spec.retry < RETRIES:
        edited["retry annotation set"] = spec._replace(retry=spec.retry + 1)
    for approved, text in _approvals(judge, state):
        edited[f"{NAMES[approved]} approved"] = spec._replace(approval=text)
    for label, after in edited.items():
        yield label, state._replace(spec=after)
    for registry in Registry:
        yield f"the registry {registry.value}", state._replace(registry=registry)
    for obstacle in Obstacle:
        yield f"the spec has {obstacle.value}", state._replace(obstacle=obstacle)


def _approvals(judge: Judge, state: State) -> Iterator[tuple[int, str]]:
    """Yield which revision a person may approve, and by which words: as the status says it was measured."""
    known, measured = judge.known(state.status), judge.status(state.status).evaluation
    for approved in (known.candidate, known.stable):
        if approved is None:
            continue
        revision = REVISIONS[approved].hash
        if not state.spec.evaluated:
            yield approved, revision
        elif measured is not None and measured.revision == revision:
            yield approved, measured.approval_id


def _rivals(judge: Judge, state: State) -> Iterator[tuple[str, State]]:
    """Yield what others do to the data set, the run on it, and the slot."""
    scoring = state.scoring
    if state.spec.evaluated:
        for dataset in Dataset:
            yield f"the data set is the {dataset} one", state._replace(scoring=scoring._replace(dataset=dataset))
        for result in (EvaluationResult.FAILED, EvaluationResult.UNDECIDED):
            yield f"the candidate's evaluation ends {result}", state._replace(scoring=scoring.ended(result))
    if state.slot is Slot.FREE and not judge.holds_a_slot(state.status, state.spec):
        yield "another rollout takes the slot", state._replace(slot=Slot.TAKEN)


def _harm(objects: Objects) -> Iterator[tuple[str, Objects]]:
    if objects.job is Job.RUNNING:
        yield "Job failed", objects._replace(job=Job.FAILED)
        yield "Job failed for good", objects._replace(job=Job.FAILED_FOR_GOOD)
    elif objects.job is not Job.ABSENT:
        yield "Job collected", without_job(objects)
    if objects.store in (Store.PRESENT, Store.RECOVERING):
        terminating = objects._replace(store=Store.TERMINATING)
        yield _STORE_DELETED, terminating if objects.mounted else without_store(objects)
    if not objects.deployment:
        return
    yield "Deployment deleted by a person", with_deployment(objects, exists=False)
    if objects.stopped:
        return
    yield "Pods crash", with_pods(objects, Pods.CRASHING)
    yield "Pods report other bytes", with_pods(objects, Pods.MISMATCHED)
    if objects.ready:
        yield "Pods lose their proof", with_pods(objects, Pods.UNPROVED)
        yield "Pod evicted", evicted(objects)
    without = with_pods(objects, Pods.NONE)
    if objects.store is Store.TERMINATING and objects.job is not Job.RUNNING:
        without = without_store(without)
    yield "Pods deleted by a person", without


def _faults(judge: Judge, state: State) -> Iterator[tuple[str, State]]:
    if state.operation is not None:
        yield "the engine operation fails", state._replace(operation=None, broken=True)
    yield "the process dies", restarted(state)
    yield "the clock is set back", state._replace(status=judge.later(state.status, clock.BACKWARDS))
    # What a promotion owes goes with the record of it.
    yield "status lost", state._replace(status=judge.lost(state.status), lost=True, owed=False)
    if state.seen is None:
        yield "the watch is lost", state._replace(seen=state.cluster)

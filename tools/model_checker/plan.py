"""What a stack should hold, and the single writes by which the engine gets it there.

The engine's order: a revision's objects each after what it needs, the Service after all objects of the revision that
it selects, and deletions last. Within that order anything may come first, and anything may be the last that happened.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from reconciler.rollout import StackPlan
from tools.model_checker.cluster import (
    NOTHING,
    Cluster,
    Job,
    Objects,
    Store,
    scaled,
    scaled_up,
    with_deployment,
    with_job,
    with_store,
    without_job,
    without_store,
)
from tools.model_checker.scenario import INDEX, NAMES


class PlannedRevision(NamedTuple):
    """One revision of a plan; `revision` is an index in the scenario's."""

    revision: int
    prefetch: bool
    serve: bool
    stopped: bool
    recovering: bool
    many: bool
    withheld: bool


class Plan(NamedTuple):
    """What a stack should hold."""

    revisions: tuple[PlannedRevision, ...]
    selected: int | None


class Write(NamedTuple):
    """One write of the engine; `deletes` what of which revision goes with it."""

    label: str
    cluster: Cluster
    deletes: tuple[str, int] | None = None
    switches: bool = False


def plan_of(stack: StackPlan, *, many: bool) -> Plan:
    """Return the plan of a decision in the scenario's terms."""
    revisions = sorted(
        PlannedRevision(
            INDEX[each.revision.hash],
            each.prefetch,
            each.serve,
            each.stopped,
            each.recovering,
            many,
            each.withheld,
        )
        for each in stack.revisions
    )
    return Plan(tuple(revisions), None if stack.selected is None else INDEX[stack.selected])


@functools.cache
def next_writes(plan: Plan, cluster: Cluster) -> tuple[Write, ...]:
    """Return the writes that the engine may make next; none when the cluster is as planned."""
    return tuple(_creations(plan, cluster)) or tuple(_deletions(plan, cluster))


def _creations(plan: Plan, cluster: Cluster) -> Iterator[Write]:
    complete = set()
    for planned in plan.revisions:
        change = _next_creation(planned, cluster.revisions[planned.revision])
        if change is None:
            complete.add(planned.revision)
            continue
        what, objects = change
        yield Write(f"{what} of {NAMES[planned.revision]}", cluster.with_revision(planned.revision, objects))
    selected = plan.selected
    if selected in complete and cluster.service != selected and selected is not None:
        yield Write(f"Service switched to {NAMES[selected]}", cluster._replace(service=selected), switches=True)


def _next_creation(planned: PlannedRevision, objects: Objects) -> tuple[str, Objects] | None:
    store = Store.RECOVERING if planned.recovering else Store.PRESENT
    if objects.store is Store.ABSENT and not planned.withheld:
        return "store", with_store(objects, store)
    if objects.store not in (store, Store.TERMINATING, Store.ABSENT):
        return "store's mark", objects._replace(store=store)
    if planned.prefetch and objects.job is Job.ABSENT:
        return "Job", with_job(objects)
    return _next_of_deployment(planned, objects) if planned.serve else None


def _next_of_deployment(planned: PlannedRevision, objects: Objects) -> tuple[str, Objects] | None:
    if not objects.deployment:
        return "Deployment", with_deployment(objects, exists=True, stopped=planned.stopped, many=planned.many)
    if objects.stopped != planned.stopped:
        return "Deployment's scale", scaled(objects, stopped=planned.stopped)
    if planned.many and not objects.many:
        return "Deployment's larger scale", scaled_up(objects)
    return None


def _deletions(plan: Plan, cluster: Cluster) -> Iterator[Write]:
    if plan.selected is None and cluster.service is not None:
        yield Write("Service deleted", cluster._replace(service=None))
        return
    planned = {each.revision: each for each in plan.revisions}
    for index, objects in enumerate(cluster.revisions):
        if objects == NOTHING:
            continue
        for what, still_there, without in _LAST_FIRST:
            if not still_there(objects) or _wants(planned.get(index), what):
                continue
            label = f"{what} of {NAMES[index]} deleted"
            yield Write(label, cluster.with_revision(index, without(objects)), deletes=(what, index))
            break


def _wants(planned: PlannedRevision | None, what: str) -> bool:
    if planned is None:
        return False
    return {"Deployment": planned.serve, "Job": planned.prefetch, "store": not planned.withheld}[what]


_LAST_FIRST: tuple[tuple[str, Callable[[Objects], bool], Callable[[Objects], Objects]], ...] = (
    ("Deployment", lambda objects: objects.deployment, lambda objects: with_deployment(objects, exists=False)),
    ("Job", lambda objects: objects.job is not Job.ABSENT, without_job),
    ("store", lambda objects: objects.store not in (Store.ABSENT, Store.TERMINATING), without_store),
)

"""What a pass sees of a revision's Pods: the abstract ones as API objects, read by the product's own code."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from api.keys import GATE, REVISION_LABEL
from components import names
from reconciler.controller.observation import Children, revision_facts
from reconciler.rollout import ServingFacts
from tools.model_checker.cluster import AGAINST_THE_REVISION, Objects, Pods

_OWNER, _OWNER_UID, _REVISION = "router", "1", "0" * 16
_CRASHED = [{"name": "ollaya", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]


def serving_facts(objects: Objects) -> ServingFacts:
    """Return what the Deployment and its Pods amount to."""
    return _facts(objects.deployment, 0 if objects.stopped else objects.wanted, objects.ended, _pods(objects))


@functools.cache
def _facts(deployment: bool, wanted: int, ended: bool, pods: tuple[Pods, ...]) -> ServingFacts:
    if not deployment:
        return ServingFacts()
    found = [_pod(number, each) for number, each in enumerate(pods)]
    children = Children(
        deployments=(_object(names.deployment(_OWNER, _REVISION), _OWNER_UID, spec={"replicas": wanted}),),
        replica_sets=(_object("rs", names.deployment(_OWNER, _REVISION)),),
        pods=(*found, *([_ended_pod()] if ended else [])),
    )
    return revision_facts(children, _OWNER, _OWNER_UID, _REVISION).serving


def clear() -> None:
    """Read everything anew: what reads it has changed."""
    _facts.cache_clear()


def _pods(objects: Objects) -> tuple[Pods, ...]:
    """Return how each running Pod is: as all of them are, or those that count as ready and others that start."""
    if not objects.has_pods:
        return ()
    if objects.pods in AGAINST_THE_REVISION:
        return (objects.pods,) * objects.wanted
    ready = objects.ready
    return (Pods.ALL_READY,) * ready + (Pods.NONE,) * (objects.wanted - ready)


def _pod(number: int, pods: Pods) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": "Running", "conditions": list(_conditions(pods))}
    if pods is Pods.CRASHING:
        status["containerStatuses"] = _CRASHED
    return _object(f"pod-{number}", "rs", status=status)


def _conditions(pods: Pods) -> Iterator[dict[str, str]]:
    if pods in (Pods.NONE, Pods.CRASHING):
        return
    proved = pods is Pods.ALL_READY
    reason = {Pods.MISMATCHED: "DigestMismatch", Pods.UNPROVED: "ProbeError"}.get(pods, "ModelReady")
    yield {"type": "ContainersReady", "status": "True"}
    yield {"type": GATE, "status": "True" if proved else "False", "reason": reason}
    yield {"type": "Ready", "status": "True" if proved else "False"}


def _ended_pod() -> dict[str, Any]:
    """Return what an eviction leaves behind, gate and all."""
    conditions = [{"type": "DisruptionTarget", "status": "True"}, {"type": GATE, "status": "True"}]
    return _object("evicted", "rs", status={"phase": "Failed", "reason": "Evicted", "conditions": conditions})


def _object(name: str, owner_uid: str, **fields: Any) -> dict[str, Any]:
    """Return an object whose UID is its name."""
    references = [{"uid": owner_uid, "controller": True}]
    labels = {REVISION_LABEL: _REVISION}
    return {"metadata": {"name": name, "uid": name, "labels": labels, "ownerReferences": references}, **fields}

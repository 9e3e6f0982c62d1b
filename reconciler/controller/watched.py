"""The kinds the controller works with, and the watch cache over them.

Everything but DecisionModels is selected by the name label, so the cache never holds another's objects, Secrets or
ConfigMaps (spec section 11.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from api.keys import GROUP, KIND, NAME_LABEL, PLURAL, VERSION
from components.desired import JsonObject
from reconciler.controller.observation import Children
from reconciler.controller.trimming import oversize_parts, trim, trim_owned_annotations
from reconciler.kernel.resources import KubernetesObject, ObjectKey, Resource
from reconciler.kernel.store import Store

DECISION_MODELS = Resource(GROUP, VERSION, PLURAL, KIND)
PODS = Resource("", "v1", "pods", "Pod")
SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
SERVICES = Resource("", "v1", "services", "Service")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")

CHILD_RESOURCES = (CLAIMS, JOBS, DEPLOYMENTS, REPLICA_SETS, BUDGETS, SERVICES, PODS)
BY_KIND: Mapping[str, Resource] = {resource.kind: resource for resource in CHILD_RESOURCES}

_BY_MODEL = "model"


class Watched:
    """The stores of DecisionModels and of their children, and which key a change concerns."""

    def __init__(self) -> None:
        self.models = Store(trim=trim_owned_annotations)
        self.children: dict[Resource, Store] = {
            resource: Store({_BY_MODEL: _model_of}, trim=trim_owned_annotations if resource is PODS else trim)
            for resource in CHILD_RESOURCES
        }

    def children_of(self, key: ObjectKey) -> Children:
        """Return the children that carry the name label of the DecisionModel `key`."""

        def of(resource: Resource) -> tuple[KubernetesObject, ...]:
            found = self.children[resource].by_index(_BY_MODEL, str(key))
            return tuple(child for child in found if not oversize_parts(child))

        return Children(
            deployments=of(DEPLOYMENTS),
            replica_sets=of(REPLICA_SETS),
            jobs=of(JOBS),
            claims=of(CLAIMS),
            services=of(SERVICES),
            budgets=of(BUDGETS),
            pods=of(PODS),
        )

    def oversize_children_of(self, key: ObjectKey) -> list[KubernetesObject]:
        """Return the children with that label that are too large to be looked at, which `children_of` leaves out."""
        found = (child for store in self.children.values() for child in store.by_index(_BY_MODEL, str(key)))
        return [child for child in found if oversize_parts(child)]

    def when_changed(self, enqueue: Callable[[ObjectKey], None]) -> None:
        """Call `enqueue` with the DecisionModel that a relevant change concerns (spec section 5.3)."""

        def model_changed(old: KubernetesObject | None, new: KubernetesObject | None) -> None:
            if _concerns_spec(old, new) or _has_lost_status(old, new):
                enqueue(_key(new or old))

        def child_changed(old: KubernetesObject | None, new: KubernetesObject | None) -> None:
            for model in {*_model_of(old), *_model_of(new)}:
                namespace, _, name = model.partition("/")
                enqueue(ObjectKey(namespace, name))

        def pod_changed(old: KubernetesObject | None, new: KubernetesObject | None) -> None:
            if old is None or new is None or pod_signature(old) != pod_signature(new):
                child_changed(old, new)

        self.models.on_change(model_changed)
        for resource, store in self.children.items():
            store.on_change(pod_changed if resource is PODS else child_changed)


def _key(obj: KubernetesObject | None) -> ObjectKey:
    metadata: Mapping[str, Any] = obj["metadata"] if obj else {}
    return ObjectKey(metadata.get("namespace", ""), metadata.get("name", ""))


def _model_of(obj: KubernetesObject | None) -> Iterable[str]:
    if obj is None:
        return ()
    metadata = obj["metadata"]
    name = (metadata.get("labels") or {}).get(NAME_LABEL)
    return (str(ObjectKey(metadata.get("namespace", ""), name)),) if name else ()


def _concerns_spec(old: KubernetesObject | None, new: KubernetesObject | None) -> bool:
    """Our own status writes wake nobody: only generation, annotations and deletion do."""
    if old is None or new is None:
        return True
    before, after = old["metadata"], new["metadata"]
    fields = ("uid", "generation", "annotations", "deletionTimestamp")
    return any(before.get(field) != after.get(field) for field in fields)


def _has_lost_status(old: KubernetesObject | None, new: KubernetesObject | None) -> bool:
    """Whether the status no longer says what serves, which is never our own doing."""
    before, after = ((obj or {}).get("status") or {} for obj in (old, new))
    return "stableRevision" in before and "stableRevision" not in after


def pod_signature(pod: JsonObject) -> tuple[object, ...]:
    """Return what about a Pod the state machine reacts to (spec section 5.3), and its end."""
    status = pod.get("status", {})
    conditions = {item["type"]: item.get("status") for item in status.get("conditions") or ()}
    containers = status.get("containerStatuses") or ()
    every = (*(status.get("initContainerStatuses") or ()), *containers)
    return (
        pod["metadata"]["uid"],
        status.get("podIP"),
        bool(pod["metadata"].get("deletionTimestamp")),
        conditions.get("ContainersReady"),
        conditions.get("Ready"),
        status.get("phase"),
        tuple(container.get("restartCount", 0) for container in containers),
        conditions.get("PodScheduled"),
        tuple(map(_state, every)),
    )


def _state(container: JsonObject) -> tuple[str, str]:
    """Return what a container is doing and why: what it says besides, changes with every attempt."""
    state = container.get("state") or {}
    return next(((each, str((state[each] or {}).get("reason", ""))) for each in sorted(state)), ("", ""))

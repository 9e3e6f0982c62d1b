"""The rendered object, what identifies it, and the metadata that all objects of a stack share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from api.keys import STACK_FIELD_MANAGER
from components import names
from components.desired import JsonObject, Owner

MANAGED_KINDS: Final = frozenset({"PersistentVolumeClaim", "Job", "Deployment", "PodDisruptionBudget", "Service"})
"""The kinds that a stack consists of. Whatever else a model owns is written by others."""

_ENGINE_ANNOTATIONS: Final[Mapping[str, str]] = {
    # Readiness is judged by the reconciler: the engine's own waiting knows no readiness gate and would hold the lock.
    "pulumi.com/skipAwait": "true",
    # By default every resource has a random manager, kept in the state: a lost state would conflict with our own past.
    "pulumi.com/patchFieldManager": STACK_FIELD_MANAGER,
    # Fields that others edited are taken back; without it a repair ends in a conflict. An object of another owner is
    # never in a stack, since names are looked up before one is converged.
    "pulumi.com/patchForce": "true",
}


class ObjectKey(NamedTuple):
    """What identifies an object within the model's namespace."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object of the stack.

    Attributes:
        kind: As in the object.
        name: As in the object's metadata.
        object: The whole object in Kubernetes' spelling. Treat as frozen.
        depends_on: What must have been applied before it.
    """

    kind: str
    name: str
    object: JsonObject
    depends_on: tuple[ObjectKey, ...] = ()

    @property
    def key(self) -> ObjectKey:
        """Kind and name."""
        return ObjectKey(self.kind, self.name)


def object_metadata(owner: Owner, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the metadata of any child of the model."""
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": dict(labels),
        "ownerReferences": [names.owner_reference(owner)],
    }


def stack_metadata(
    owner: Owner, name: str, labels: Mapping[str, str], annotations: Mapping[str, str | None] | None = None
) -> dict[str, Any]:
    """Return the metadata of an object that the engine applies; annotations without a value are left out."""
    present = {key: value for key, value in (annotations or {}).items() if value is not None}
    return {**object_metadata(owner, name, labels), "annotations": {**_ENGINE_ANNOTATIONS, **present}}

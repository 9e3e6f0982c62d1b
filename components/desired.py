"""What one DecisionModel's stack should contain: the frozen value between the decision and the Pulumi engine.

The rollout decides a `DesiredStack`, `components.manifests` turns it into Kubernetes objects, and
`components.program` declares those objects to the engine. Equal values give byte-equal manifests, so comparing
rendered objects with live ones tells whether there is anything to do.

Everything particular to the runtime (scripts, environment, default resources, GPU placement) arrives here ready
made from `reconciler.engine`; this package only knows how a revision looks on Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

JsonObject = Mapping[str, Any]
"""A JSON object in Kubernetes' own spelling. Treat as frozen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The DecisionModel that owns every object of the stack."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKey:
    """A reference to one key of a Secret; the value itself never enters a manifest or a state file."""

    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable:
    """One container variable: either a plain `value` or a `secret` reference, never both."""

    name: str
    value: str | None = None
    secret: SecretKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where Pods may run; fields as in a Pod spec, empty when unset."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[JsonObject, ...] = ()
    affinity: JsonObject | None = None
    runtime_class_name: str | None = None


class CoLocation(StrEnum):
    """How a revision's Pods are kept on one node."""

    REQUIRED = "Required"
    PREFERRED = "Preferred"
    NONE = "None"
    """Not at all, as earlier versions left a single replica."""


def is_shareable(access_modes: Iterable[str]) -> bool:
    """Whether Pods on several nodes can mount a volume with these access modes at once."""
    return not {"ReadWriteMany", "ReadOnlyMany"}.isdisjoint(access_modes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The revision's model store (a PersistentVolumeClaim, spec section 4.1)."""

    size: str
    access_modes: tuple[str, ...] = ("ReadWriteOnce",)
    storage_class_name: str | None = None
    shared: bool = False
    """Whether it is the one claim of all revisions of version 0.3: a revision that serves from it stays there."""
    recovering: bool = False
    """True while a lost store is being refilled (annotation `decisionmodel.io/store-recovering`)."""
    withheld: bool = False
    """Whether the lost claim is not created again yet."""

    @property
    def shareable(self) -> bool:
        """Whether Pods on several nodes can mount the store at once."""
        return is_shareable(self.access_modes)


PREFETCH_RESOURCES: Final[JsonObject] = {
    "requests": {"cpu": "100m", "memory": "256Mi"},
    "limits": {"memory": "1Gi"},
}
"""What a download asks for and may use unless somebody says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetch:
    """The Job that fills the store and verifies the digest (spec section 4.3)."""

    image: str
    script: str
    environment: tuple[EnvironmentVariable, ...]
    deadline_seconds: int
    ignores_disruptions: bool = True
    """Whether Pods that others end, as by an eviction, do not count as failures."""
    seeded: bool = False
    """Whether the revision's manifest ConfigMap is mounted as a read-only file."""
    prune: bool = False
    """Whether the whole volume is mounted too, so that the script can remove stale directories."""
    placement: Placement = field(default_factory=Placement)
    resources: JsonObject = field(default_factory=lambda: PREFETCH_RESOURCES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The Deployment that serves the model (spec section 4.5)."""

    image: str
    environment: tuple[EnvironmentVariable, ...]
    replicas: int
    device: str
    co_location: CoLocation = CoLocation.PREFERRED
    """How all Pods are kept on one node where only one can mount the store."""
    resources: JsonObject = field(default_factory=dict)
    placement: Placement = field(default_factory=Placement)
    api_key_checksum: str | None = None
    """Annotation of the Deployment object (spec section 8.3)."""
    template_api_key_checksum: str | None = None
    """The same annotation on the Pod template: changing it rolls the Pods."""
    record: str | None = None
    """Annotation of the Deployment object: the revision's record, should the status lose it."""
    template: JsonObject | None = None
    """A Pod template to render as it is, in place of everything but the replicas (see `components.freeze`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodExtras:
    """What the Pods of a revision, its Deployment and its Job get besides what the platform gives them."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the Pods alone."""
    image_pull_secrets: tuple[str, ...] = ()
    cluster_identity: bool = False
    """Whether user, groups and SELinux level are left to the cluster."""
    record: str | None = None
    """The same as JSON, kept on the Deployment; None where nothing is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredRevision:
    """One revision of the model and the objects it should have right now."""

    hash: str
    store: Store
    prefetch: Prefetch | None = None
    serving: Serving | None = None
    pods: PodExtras = PodExtras()
    disruption_budget: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredStack:
    """Everything one DecisionModel's stack should contain.

    `selected` is the revision whose Pods the Service selects; without one there is no Service.
    """

    owner: Owner
    revisions: tuple[DesiredRevision, ...] = ()
    selected: str | None = None

"""The reconciler's Pod and what surrounds it: resources, proxy, the engine's state, traffic of the models."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from api.quantity import Quantity
from components.configuration.section import NamespaceName, ObjectName, Section


class ImagePullPolicy(StrEnum):
    """When the kubelet fetches the image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Resources(Section):
    """What the reconciler's container asks for and may use at most."""

    requests: Mapping[str, Quantity] = Field(default_factory=lambda: {"cpu": "200m", "memory": "512Mi"})
    limits: Mapping[str, Quantity] = Field(default_factory=lambda: {"memory": "2Gi"})


class ServiceAccount(Section):
    """The reconciler's account."""

    annotations: Mapping[str, str] = Field(default_factory=dict)
    """For clouds that give a Pod credentials by its account."""


def _without_credentials(url: str) -> str:
    if "@" in url:
        # The text itself is not repeated: it may hold a password.
        raise ValueError("carries credentials: keep it in a Secret and name that in proxy.existingSecret")
    return url


ProxyUrl = Annotated[str, AfterValidator(_without_credentials)]


class Proxy(Section):
    """The way to registries and weight hosts in networks that have a proxy; an empty value renders nothing."""

    http_proxy: ProxyUrl = ""
    https_proxy: ProxyUrl = ""
    no_proxy: str = ""
    existing_secret: ObjectName | None = None
    """A Secret with `httpProxy`, `httpsProxy` and `noProxy`, each optional; the values here are then ignored."""


class S3State(Section):
    """A bucket for the engine's state."""

    bucket: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$")] | None = None
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$")] | None = None
    endpoint: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.-]+(:[0-9]+)?$")] | None = None
    """Host and port of another server than Amazon's."""
    disable_tls: bool = False
    force_path_style: bool = False
    credentials_secret: ObjectName | None = None
    """A Secret with `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`; without one the Pod's account has to do."""


class StateVolume(Section):
    """Where the engine keeps the models' stacks.

    A bucket; or a claim of this size; or, with neither, a volume that lives as long as the Pod. Losing it costs no
    model: the reconciler takes its objects over again by name and owner.
    """

    size: Quantity | None = None
    storage_class_name: str | None = None
    s3: S3State | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.s3 and (self.size or self.storage_class_name):
            raise ValueError("size and storageClassName are of a volume, and s3 needs none: set one or the other")
        if self.storage_class_name and not self.size:
            raise ValueError("storageClassName means nothing without size")
        return self


class NetworkPolicies(Section):
    """Who may ask the models, and where their Pods may go (spec section 4.9)."""

    enabled: bool = False
    namespaces: tuple[NamespaceName, ...] = ()
    """Namespaces with models; those of `manager.watchNamespaces` when empty."""
    egress_ports: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = (443,)
    """Ports of registries and weight hosts."""


class Retain(Section):
    """What stays on the cluster when `pulumi destroy`, or an update that no longer declares it, would delete it."""

    definition: bool = True
    """The CRD; with it goes every DecisionModel of the cluster, whoever made it."""
    models: bool = True
    """The environment's DecisionModels, with all that serves them and their stores."""
    state: bool = True
    """The claim of the engine's state, and the namespace it is in."""


class WaitForModels(Section):
    """Whether an update ends only when every model is ready."""

    enabled: bool = True
    timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] = 900

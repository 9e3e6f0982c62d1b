"""Compute resources, in Kubernetes' own shape (core/v1 ResourceRequirements)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from api.base import ApiModel
from api.bounds import Listed, Mapped, Text
from api.quantity import Quantity


class ResourceClaim(ApiModel):
    """A device claimed through dynamic resource allocation (core/v1 ResourceClaim)."""

    name: Text
    """The entry of the Pod's resourceClaims."""
    request: Text = ""
    """The request within that claim; empty means all of it."""


class ContainerResources(ApiModel):
    """Amounts of compute resources that one container asks for and may use at most."""

    limits: Mapped[Quantity] = Field(default_factory=dict)
    """The most the container may use."""
    requests: Mapped[Quantity] = Field(default_factory=dict)
    """What the scheduler reserves for it."""


class ResourceRequirements(ApiModel):
    """What each serving Pod asks for and may use at most."""

    limits: Mapped[Quantity] = Field(default_factory=dict)
    """The most a Pod may use."""
    requests: Mapped[Quantity] = Field(default_factory=dict)
    """What the scheduler reserves for a Pod."""
    claims: Annotated[
        Listed[ResourceClaim],
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
    ] = ()
    """Devices claimed through dynamic resource allocation."""

"""Compute resources, in Kubernetes' own shape (core/v1 ResourceRequirements)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from api.base import ApiModel
from api.quantity import Quantity


class ResourceClaim(ApiModel):
    """A device claimed through dynamic resource allocation (core/v1 ResourceClaim)."""

    name: str
    """The entry of the Pod's resourceClaims."""
    request: str = ""
    """The request within that claim; empty means all of it."""


class ResourceRequirements(ApiModel):
    """What each serving Pod asks for and may use at most."""

    limits: dict[str, Quantity] = Field(default_factory=dict)
    """The most a Pod may use."""
    requests: dict[str, Quantity] = Field(default_factory=dict)
    """What the scheduler reserves for a Pod."""
    claims: Annotated[
        tuple[ResourceClaim, ...],
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
    ] = ()
    """Devices claimed through dynamic resource allocation."""

"""The reconciler's Pod: its image, resources, account and way to the outside."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from api.quantity import Quantity
from components.configuration.section import ObjectName, Section


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

"""What all Pods of a model get besides what the platform gives them: `spec.pods`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from api.base import ApiModel
from api.bounds import ObjectName, Text
from api.keys import GROUP
from api.rules import Rule

# What else Kubernetes' controllers keep for themselves the API server refuses, or they set it all the same.
_RESERVED_PREFIXES = (f"{GROUP}/", "kubectl.kubernetes.io/")


def _unreserved(kind: str) -> Rule:
    prefixes = " && ".join(f"!key.startsWith('{prefix}')" for prefix in _RESERVED_PREFIXES)
    return Rule(
        f"self.all(key, {prefixes})",
        f"{kind} must not use keys of {' or '.join(_RESERVED_PREFIXES)}",
        lambda entries: not any(key.startswith(_RESERVED_PREFIXES) for key in entries),
    )


# The Deployment carries all of it once more, as one annotation.
_Few = Field(max_length=32)
PodLabels = Annotated[dict[str, Annotated[str, Field(max_length=63)]], _Few, _unreserved("labels")]
PodAnnotations = Annotated[dict[str, Text], _Few, _unreserved("annotations")]


class PodIdentity(StrEnum):
    """Who chooses under which user, group and SELinux level Pods run."""

    PLATFORM = "Platform"
    CLUSTER = "Cluster"


class PullSecret(ApiModel):
    """A Secret in the model's namespace (core/v1 LocalObjectReference)."""

    name: ObjectName
    """The Secret's name."""


class PodSettings(ApiModel):
    """What the Pods of serving Deployments and of prefetch Jobs get besides; any change makes a new revision."""

    labels: PodLabels = Field(default_factory=dict)
    """Labels of the Pods and of their Deployment and Job; never those that the platform itself sets."""
    annotations: PodAnnotations = Field(default_factory=dict)
    """Annotations of the Pods, for example a mesh's opt-out; never those that the platform itself sets."""
    image_pull_secrets: Annotated[
        tuple[PullSecret, ...],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = ()
    """Secrets with the credentials of private image registries; only the kubelet reads them."""
    identity: PodIdentity = PodIdentity.PLATFORM
    """Platform sets user, group and fsGroup 1000 and an SELinux level of the model's own. Cluster leaves them to the
    cluster, for those that assign them to each namespace; Pods still may not run as root."""

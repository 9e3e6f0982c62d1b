"""What prefetch and serving Pods have in common: identity, volumes, variables, placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from components.desired import EnvironmentVariable, Owner, Placement, PodExtras
from components.selinux import selinux_level

STORE_VOLUME: Final = "store"
STATE_VOLUME: Final = "ollaya-state"

_RUNTIME_USER: Final = 1000
"""User and group of the runtime's images, and the group that owns the store's files."""


def template_metadata(
    extras: PodExtras, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the metadata of a Pod template: ours go before what is added to them."""
    metadata: dict[str, Any] = {"labels": {**extras.labels, **labels}}
    if merged := {**extras.annotations, **(annotations or {})}:
        metadata["annotations"] = merged
    return metadata


def pull_secrets(extras: PodExtras) -> dict[str, Any]:
    """Return the Pod spec field that names the credentials of image registries; nothing without any."""
    names = [{"name": name} for name in extras.image_pull_secrets]
    return {"imagePullSecrets": names} if names else {}


def pod_security_context(owner: Owner, extras: PodExtras) -> dict[str, Any]:
    """Return the identity under which every Pod of the model reads and writes its store.

    A cluster that assigns users and groups to namespaces refuses all others; there the identity is left to it.
    """
    if extras.cluster_identity:
        return {
            "runAsNonRoot": True,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    return {
        "runAsNonRoot": True,
        "runAsUser": _RUNTIME_USER,
        "runAsGroup": _RUNTIME_USER,
        "fsGroup": _RUNTIME_USER,
        # A store of many files is not walked again at every start.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
        "seLinuxOptions": {"level": selinux_level(owner.namespace, owner.name)},
    }


def container_security_context() -> dict[str, Any]:
    """Return a container's rights: none beyond its volumes."""
    return {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def store_volume(claim: str) -> dict[str, Any]:
    """Return the volume over the revision's claim."""
    return {"name": STORE_VOLUME, "persistentVolumeClaim": {"claimName": claim}}


def state_volume() -> dict[str, Any]:
    """Return the scratch volume that the read-only root makes necessary."""
    return {"name": STATE_VOLUME, "emptyDir": {}}


def escaped(value: str) -> str:
    """Return the spelling of `value` that Kubernetes, which expands $(NAME) in variables, reads as it is."""
    return value.replace("$", "$$")


def unescaped(value: str) -> str:
    """Return what a variable spelled by `escaped` stands for."""
    return value.replace("$$", "$")


def environment(variables: Iterable[EnvironmentVariable]) -> list[dict[str, Any]]:
    """Return container variables sorted by name, since their order is part of a Pod template."""
    return [_variable(variable) for variable in sorted(variables, key=lambda variable: variable.name)]


def placement_fields(placement: Placement) -> dict[str, Any]:
    """Return the Pod spec fields that a placement sets, without empty ones, which the API server would drop."""
    fields = {
        "nodeSelector": dict(placement.node_selector),
        "tolerations": list(placement.tolerations),
        "affinity": placement.affinity,
        "runtimeClassName": placement.runtime_class_name,
    }
    return {key: value for key, value in fields.items() if value}


def _variable(variable: EnvironmentVariable) -> dict[str, Any]:
    if variable.secret is None:
        return {"name": variable.name, "value": escaped(variable.value or "")}
    reference = {"name": variable.secret.name, "key": variable.secret.key, "optional": False}
    return {"name": variable.name, "valueFrom": {"secretKeyRef": reference}}

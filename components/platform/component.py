"""The platform as Pulumi components: the operator with everything it needs, and the models it looks after.

Names of resources are made of kind and object name, and type tokens never change: both are part of every URN in a
stack's state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pulumi import ComponentResource, Output, Resource, ResourceOptions
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.apiextensions.v1 import CustomResourceDefinition
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, Namespace, PersistentVolumeClaim, Secret, Service, ServiceAccount
from pulumi_kubernetes.networking.v1 import NetworkPolicy
from pulumi_kubernetes.rbac.v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding

from api.keys import KIND, PLATFORM_FIELD_MANAGER
from components.configuration import Retain
from components.desired import JsonObject

PLATFORM_TYPE: Final = "decisionmodel:index:Platform"
ENVIRONMENT_TYPE: Final = "decisionmodel:index:Environment"

_RESOURCE_TYPES: Final[Mapping[str, Callable[..., Resource]]] = {
    "ClusterRole": ClusterRole,
    "ClusterRoleBinding": ClusterRoleBinding,
    "ConfigMap": ConfigMap,
    "CustomResourceDefinition": CustomResourceDefinition,
    "Deployment": Deployment,
    "Namespace": Namespace,
    "NetworkPolicy": NetworkPolicy,
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "PrometheusRule": CustomResource,
    "Role": Role,
    "RoleBinding": RoleBinding,
    "Secret": Secret,
    "Service": Service,
    "ServiceAccount": ServiceAccount,
    "ServiceMonitor": CustomResource,
}

# By default every resource has a random manager, kept in the state: a lost state would conflict with its own past.
_FIELD_MANAGER: Final = {"pulumi.com/patchFieldManager": PLATFORM_FIELD_MANAGER}
# The platform's objects are this stack's alone. Without force an update would end at whatever somebody set by hand, as
# `kubectl scale` does, or at what `kubectl apply -f install.yaml` made with other values.
_FORCE: Final = {"pulumi.com/patchForce": "true"}
# A claim may bind only when its first Pod is scheduled, and a Service has endpoints only then; that Pod comes later.
_UNAWAITED: Final = {"pulumi.com/skipAwait": "true"}
_UNAWAITED_KINDS: Final = frozenset({"PersistentVolumeClaim", "Service"})


def kept_kinds(retain: Retain, declared: Collection[str]) -> frozenset[str]:
    """Return the kinds of the objects that outlive their resources.

    Args:
        retain: what an environment wants to keep.
        declared: the kinds of its objects: a namespace is kept for the sake of a claim in it.
    """
    keeps_claim = retain.state and "PersistentVolumeClaim" in declared
    kept = {
        "CustomResourceDefinition": retain.definition,
        KIND: retain.models,
        "PersistentVolumeClaim": keeps_claim,
        "Namespace": keeps_claim,
    }
    return frozenset(kind for kind, stays in kept.items() if stays)


class Platform(ComponentResource):
    """The operator: its definition of a DecisionModel, its rights and its Deployment.

    Attributes:
        objects: the declared resources, in the order they are applied in.
    """

    def __init__(
        self, name: str, manifests: Iterable[JsonObject], retain: Retain, opts: ResourceOptions | None = None
    ) -> None:
        super().__init__(PLATFORM_TYPE, name, None, opts)
        self.objects: list[Resource] = []
        wanted = [*manifests]
        kept = kept_kinds(retain, {manifest["kind"] for manifest in wanted})
        for manifest in wanted:
            resource_type = _RESOURCE_TYPES[manifest["kind"]]
            options = ResourceOptions(parent=self, depends_on=[*self.objects])
            self.objects.append(_declare(resource_type, manifest, kept, options, _FORCE))
        self.register_outputs({})


class Environment(ComponentResource):
    """The models of one environment, each as its manifest says; what becomes of them is the operator's business.

    Attributes:
        applied: known as soon as the cluster has every model as declared; not in a preview of new ones.
    """

    def __init__(
        self, name: str, models: Iterable[JsonObject], retain: Retain, opts: ResourceOptions | None = None
    ) -> None:
        super().__init__(ENVIRONMENT_TYPE, name, None, opts)
        kept = kept_kinds(retain, ())
        options = ResourceOptions(parent=self)
        self.applied: Output[Any] = Output.all(*(_declare(CustomResource, model, kept, options).id for model in models))
        self.register_outputs({})


def _declare(
    resource_type: Callable[..., Any],
    manifest: JsonObject,
    kept: Collection[str],
    options: ResourceOptions,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    described = manifest["metadata"]
    scope = described.get("namespace", "cluster")
    return resource_type(
        f"{manifest['kind']}/{scope}/{described['name']}",
        **_arguments({**manifest, "metadata": _annotated(manifest, notes)}),
        opts=ResourceOptions.merge(options, ResourceOptions(retain_on_delete=manifest["kind"] in kept or None)),
    )


def _annotated(manifest: JsonObject, notes: Mapping[str, str]) -> JsonObject:
    """Return an object's metadata with what the engine has to know about it."""
    unawaited = _UNAWAITED if manifest["kind"] in _UNAWAITED_KINDS else {}
    annotations = {**manifest["metadata"].get("annotations", {}), **_FIELD_MANAGER, **notes, **unawaited}
    return {**manifest["metadata"], "annotations": annotations}


_ARGUMENT_NAMES: Mapping[str, str] = {
    "apiVersion": "api_version",
    "automountServiceAccountToken": "automount_service_account_token",
    "roleRef": "role_ref",
}


def _arguments(manifest: JsonObject) -> dict[str, Any]:
    return {_ARGUMENT_NAMES.get(field, field): value for field, value in manifest.items()}

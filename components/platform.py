"""The platform as Pulumi components: the operator with everything it needs, and the models it looks after.

Names of resources are made of kind and object name, and type tokens never change: both are part of every URN in a
stack's state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pulumi import ComponentResource, Resource, ResourceOptions
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.apiextensions.v1 import CustomResourceDefinition
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import Namespace, PersistentVolumeClaim, ServiceAccount
from pulumi_kubernetes.rbac.v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding

from components.desired import JsonObject

PLATFORM_TYPE: Final = "decisionmodel:index:Platform"
ENVIRONMENT_TYPE: Final = "decisionmodel:index:Environment"

_RESOURCE_TYPES: Final[Mapping[str, Callable[..., Resource]]] = {
    "ClusterRole": ClusterRole,
    "ClusterRoleBinding": ClusterRoleBinding,
    "CustomResourceDefinition": CustomResourceDefinition,
    "Deployment": Deployment,
    "Namespace": Namespace,
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "Role": Role,
    "RoleBinding": RoleBinding,
    "ServiceAccount": ServiceAccount,
}

# Deleting the definition would delete every model of the cluster with it, whoever made them.
_KEPT_KINDS: Final = frozenset({"CustomResourceDefinition"})


class Platform(ComponentResource):
    """The operator: its definition of a DecisionModel, its rights and its Deployment.

    Attributes:
        objects: the declared resources, in the order they are applied in.
    """

    def __init__(self, name: str, manifests: Iterable[JsonObject], opts: ResourceOptions | None = None) -> None:
        super().__init__(PLATFORM_TYPE, name, None, opts)
        self.objects: list[Resource] = []
        for manifest in manifests:
            self.objects.append(_declare(_RESOURCE_TYPES[manifest["kind"]], manifest, self, self.objects))
        self.register_outputs({})


class Environment(ComponentResource):
    """The models of one environment, each as its manifest says; what becomes of them is the operator's business."""

    def __init__(self, name: str, models: Iterable[JsonObject], opts: ResourceOptions | None = None) -> None:
        super().__init__(ENVIRONMENT_TYPE, name, None, opts)
        for model in models:
            _declare(CustomResource, model, self, [])
        self.register_outputs({})


def _declare(
    resource_type: Callable[..., Resource], manifest: JsonObject, parent: Resource, needed: list[Resource]
) -> Resource:
    metadata = manifest["metadata"]
    scope = metadata.get("namespace", "cluster")
    return resource_type(
        f"{manifest['kind']}/{scope}/{metadata['name']}",
        **_arguments(manifest),
        opts=ResourceOptions(
            parent=parent, depends_on=[*needed], retain_on_delete=manifest["kind"] in _KEPT_KINDS or None
        ),
    )


_ARGUMENT_NAMES: Mapping[str, str] = {
    "apiVersion": "api_version",
    "automountServiceAccountToken": "automount_service_account_token",
    "roleRef": "role_ref",
}


def _arguments(manifest: JsonObject) -> dict[str, Any]:
    return {_ARGUMENT_NAMES.get(field, field): value for field, value in manifest.items()}

"""Everything the platform itself consists of, as plain Kubernetes objects in the order they must be applied in.

The models' own objects are not here: the reconciler makes those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from api import crd
from api.keys import PLATFORM_FIELD_MANAGER
from components.configuration import PlatformConfiguration, StateVolume
from components.desired import JsonObject
from components.platform_pod import pod_spec
from components.platform_rbac import LEASE_GRANTS, MANAGER_GRANTS, binding, role

SYSTEM_NAMESPACE: Final = "decision-model-operator-system"
_NAME = "decision-model-operator"
MANAGER_NAME: Final = f"{_NAME}-controller-manager"
_STATE_CLAIM = f"{_NAME}-state"
_MANAGER_ROLE = f"{_NAME}-manager-role"
_LEASE_ROLE = f"{_NAME}-leader-election-role"

_LABELS: Mapping[str, str] = {"app.kubernetes.io/name": _NAME}
_POD_LABELS: Mapping[str, str] = {**_LABELS, "control-plane": "controller-manager"}

# By default every resource has a random manager, kept in the state: a lost state would conflict with its own past.
_FIELD_MANAGER: Mapping[str, str] = {"pulumi.com/patchFieldManager": PLATFORM_FIELD_MANAGER}
# A claim may bind only when its first Pod is scheduled, and that Pod comes later.
_UNAWAITED: Mapping[str, str] = {"pulumi.com/skipAwait": "true"}


def platform_manifests(configuration: PlatformConfiguration) -> list[JsonObject]:
    """Return the platform's objects; those that others need come first."""
    return [
        _custom_resource_definition(),
        _namespace(),
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": _metadata(MANAGER_NAME),
            "automountServiceAccountToken": True,
        },
        *_manager_roles(configuration.manager.watch_namespaces),
        *_role_with_binding("Role", _LEASE_ROLE, SYSTEM_NAMESPACE, LEASE_GRANTS),
        *_state_claim(configuration.state),
        _deployment(configuration),
    ]


def _metadata(
    name: str,
    namespace: str | None = SYSTEM_NAMESPACE,
    labels: Mapping[str, str] = _LABELS,
    annotations: Mapping[str, str] = _FIELD_MANAGER,
) -> dict[str, Any]:
    scope = {"namespace": namespace} if namespace else {}
    return {"name": name, **scope, "labels": dict(labels), "annotations": dict(annotations)}


def _custom_resource_definition() -> JsonObject:
    return {**crd.load(), "metadata": _metadata(crd.CRD_NAME, namespace=None)}


def _namespace() -> JsonObject:
    labels = {**_LABELS, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": _metadata(SYSTEM_NAMESPACE, None, labels)}


def _manager_roles(namespaces: tuple[str, ...]) -> list[JsonObject]:
    """Return the reconciler's rights: in the whole cluster, or only in the namespaces it watches."""
    if not namespaces:
        return _role_with_binding("ClusterRole", _MANAGER_ROLE, None, MANAGER_GRANTS)
    scoped = (_role_with_binding("Role", _MANAGER_ROLE, namespace, MANAGER_GRANTS) for namespace in namespaces)
    return [item for pair in scoped for item in pair]


def _role_with_binding(kind: str, name: str, namespace: str | None, grants: Any) -> list[JsonObject]:
    account = (SYSTEM_NAMESPACE, MANAGER_NAME)
    return [
        role(kind, _metadata(name, namespace), grants),
        binding(kind, _metadata(f"{name}binding", namespace), name, account),
    ]


def _state_claim(state: StateVolume) -> list[JsonObject]:
    if state.size is None:
        return []
    storage_class = {} if state.storage_class_name is None else {"storageClassName": state.storage_class_name}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(_STATE_CLAIM, annotations={**_FIELD_MANAGER, **_UNAWAITED}),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": str(state.size)}},
            **storage_class,
        },
    }
    return [claim]


def _deployment(configuration: PlatformConfiguration) -> JsonObject:
    claim = None if configuration.state.size is None else _STATE_CLAIM
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(MANAGER_NAME, labels=_POD_LABELS),
        "spec": {
            "replicas": configuration.replicas,
            "selector": {"matchLabels": dict(_POD_LABELS)},
            # A claim for one node keeps a second Pod from starting beside the first.
            "strategy": {"type": "Recreate" if claim else "RollingUpdate"},
            "template": {
                "metadata": {"labels": dict(_POD_LABELS)},
                "spec": pod_spec(configuration, MANAGER_NAME, claim),
            },
        },
    }

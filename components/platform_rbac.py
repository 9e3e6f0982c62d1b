"""What the reconciler may do in a cluster: an exact allow-list (spec section 11.3).

Never wider than this: no exec, no nodes, no list of Secrets. Engine and reconciler act under the same account.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from api.keys import GROUP, PLURAL
from components.desired import JsonObject

_MANAGED: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_WATCHED: Final = ("get", "list", "watch")
_CHANGED: Final = ("get", "patch", "update")

_Grant = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]

MANAGER_GRANTS: Final[tuple[_Grant, ...]] = (
    (("",), ("configmaps",), ("create", "delete", "get")),
    (("",), ("secrets",), ("get",)),
    (("",), ("persistentvolumeclaims", "services"), _MANAGED),
    (("apps",), ("deployments",), _MANAGED),
    (("batch",), ("jobs",), _MANAGED),
    (("policy",), ("poddisruptionbudgets",), _MANAGED),
    ((GROUP,), (PLURAL,), _MANAGED),
    (("",), ("pods",), _WATCHED),
    (("",), ("pods/status",), _CHANGED),
    (("apps",), ("replicasets",), _WATCHED),
    (("", "events.k8s.io"), ("events",), ("create", "patch")),
    ((GROUP,), (f"{PLURAL}/status",), _CHANGED),
    ((GROUP,), (f"{PLURAL}/finalizers",), ("update",)),
)
"""API groups, resources and verbs, wherever there are models."""

LEASE_GRANTS: Final[tuple[_Grant, ...]] = ((("coordination.k8s.io",), ("leases",), ("create", "get", "update")),)
"""The same, in the reconciler's own namespace: who leads, and who works on which stack."""


def rules(grants: Iterable[_Grant]) -> list[JsonObject]:
    """Return grants as the rules of a role."""
    return [
        {"apiGroups": [*groups], "resources": [*resources], "verbs": [*verbs]} for groups, resources, verbs in grants
    ]


def role(kind: str, metadata: Mapping[str, Any], grants: Iterable[_Grant]) -> JsonObject:
    """Return a Role or ClusterRole."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": rules(grants),
    }


def binding(kind: str, metadata: Mapping[str, Any], role_name: str, account: tuple[str, str]) -> JsonObject:
    """Return the binding of a role to a service account, given as namespace and name."""
    namespace, name = account
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role_name},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
    }

"""Who may do what: the reconciler (an exact allow-list, spec section 11.3), scrapers, and the users of a cluster.

Never wider than this: no exec, no nodes, no list of Secrets. Engine and reconciler act under the same account.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from api.keys import GROUP, PLURAL
from components.desired import JsonObject
from components.platform.metadata import LABELS, MANAGER_NAME, NAME, SYSTEM_NAMESPACE, metadata

_Grant = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]

_MANAGED: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_WATCHED: Final = ("get", "list", "watch")
_CHANGED: Final = ("get", "patch", "update")

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
    (("",), ("events",), ("list",)),
    ((GROUP,), (f"{PLURAL}/status",), _CHANGED),
    ((GROUP,), (f"{PLURAL}/finalizers",), ("update",)),
)
"""API groups, resources and verbs, wherever there are models."""

LEASE_GRANTS: Final[tuple[_Grant, ...]] = ((("coordination.k8s.io",), ("leases",), ("create", "get", "update")),)
"""The same, in the reconciler's own namespace: who leads."""

SCRAPE_REVIEW_GRANTS: Final[tuple[_Grant, ...]] = (
    (("authentication.k8s.io",), ("tokenreviews",), ("create",)),
    (("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
)
"""The same, to ask who a scraper is and what it may get; neither exists in a namespace."""

# What `view`, `edit` and `admin` come to mean for DecisionModels and their scale, by the label that adds to a role.
_USER_VERBS: Final[Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]]] = {
    "admin": ("admin", ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"), _CHANGED),
    "editor": ("edit", _MANAGED, _CHANGED),
    "viewer": ("view", _WATCHED, ("get",)),
}

_MANAGER_ROLE: Final = f"{NAME}-manager-role"
_LEASE_ROLE: Final = f"{NAME}-leader-election-role"
_METRICS_AUTH_ROLE: Final = f"{NAME}-metrics-auth-role"
METRICS_READER_ROLE: Final = f"{NAME}-metrics-reader"


def manager_roles(namespaces: Iterable[str]) -> list[JsonObject]:
    """Return the reconciler's rights: in the whole cluster, or only in the namespaces it watches; Leases at home."""
    places = [*namespaces]
    scoped = [_granted("Role", _MANAGER_ROLE, namespace, MANAGER_GRANTS) for namespace in places]
    wide = [] if places else [_granted("ClusterRole", _MANAGER_ROLE, None, MANAGER_GRANTS)]
    pairs = [*wide, *scoped, _granted("Role", _LEASE_ROLE, SYSTEM_NAMESPACE, LEASE_GRANTS)]
    return [item for pair in pairs for item in pair]


def scraping_roles() -> list[JsonObject]:
    """Return the right to examine scrapers, and a role that makes an account one; whose is for the cluster to say."""
    reader = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    return [
        *_granted("ClusterRole", _METRICS_AUTH_ROLE, None, SCRAPE_REVIEW_GRANTS),
        _role("ClusterRole", metadata(METRICS_READER_ROLE, None), [reader]),
    ]


def user_roles() -> list[JsonObject]:
    """Return the roles that extend the cluster's own `admin`, `edit` and `view` to DecisionModels."""
    return [
        _role(
            "ClusterRole",
            metadata(
                f"{NAME}-{PLURAL}-{user}-role",
                None,
                {**LABELS, f"rbac.authorization.k8s.io/aggregate-to-{aggregate}": "true"},
            ),
            _rules(
                (
                    ((GROUP,), (PLURAL,), verbs),
                    ((GROUP,), (f"{PLURAL}/status",), ("get",)),
                    ((GROUP,), (f"{PLURAL}/scale",), scaling),
                )
            ),
        )
        for user, (aggregate, verbs, scaling) in _USER_VERBS.items()
    ]


def _granted(kind: str, name: str, namespace: str | None, grants: Iterable[_Grant]) -> tuple[JsonObject, JsonObject]:
    """Return a role and its binding to the reconciler's account."""
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata(f"{name}binding", namespace),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": SYSTEM_NAMESPACE, "name": MANAGER_NAME}],
    }
    return _role(kind, metadata(name, namespace), _rules(grants)), binding


def _rules(grants: Iterable[_Grant]) -> list[dict[str, Any]]:
    return [
        {"apiGroups": [*groups], "resources": [*resources], "verbs": [*verbs]} for groups, resources, verbs in grants
    ]


def _role(kind: str, described: Mapping[str, Any], rules: list[dict[str, Any]]) -> JsonObject:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": described, "rules": rules}

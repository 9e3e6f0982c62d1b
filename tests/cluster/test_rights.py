"""Who may do what on a real cluster: the reconciler as it is installed either way, and the users (spec section 11.3).

The API server is asked twice: for decisions, one by one, and for everything that an account may do, which is compared
as a whole. What an account with no role may do counts for nothing there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

import pytest

from components.platform.manifests import platform_manifests
from tests.cluster.observing import OPERATOR, SYSTEM
from tools.environment import Environment
from tools.install_yaml import stack_configuration
from tools.kubectl import Kubectl, wait_until
from tools.observer import Object

pytestmark = pytest.mark.cluster

WATCHED, OTHER = "rights", "rights-other"
MANAGED = ("create", "delete", "get", "list", "patch", "update", "watch")
READ = ("get", "list", "watch")


class Right(NamedTuple):
    """A verb on a resource; of a group as in `deployments.apps`, of a part as in `pods/status`."""

    verb: str
    resource: str


def rights(verbs: Iterable[str], *resources: str) -> frozenset[Right]:
    return frozenset(map(Right._make, product(verbs, resources)))


RECONCILER = frozenset[Right]().union(
    rights(("create", "delete", "get"), "configmaps"),
    rights(("get",), "secrets"),
    rights(MANAGED, "persistentvolumeclaims", "services", "deployments.apps", "jobs.batch"),
    rights(MANAGED, "poddisruptionbudgets.policy", "decisionmodels.decisionmodel.io"),
    rights(READ, "pods", "replicasets.apps"),
    rights(("get", "patch", "update"), "pods/status", "decisionmodels/status.decisionmodel.io"),
    rights(("update",), "decisionmodels/finalizers.decisionmodel.io"),
    rights(("create", "patch"), "events", "events.events.k8s.io"),
    rights(("list",), "events"),
)
LEASES = rights(("create", "get", "update"), "leases.coordination.k8s.io")
NEVER = frozenset[Right]().union(
    rights(("list", "watch", "create", "update", "patch", "delete"), "secrets"),
    rights(("list", "watch", "update", "patch"), "configmaps"),
    rights(("create", "update", "patch", "delete"), "pods"),
    rights(("create", "get"), "pods/exec", "pods/attach", "pods/portforward", "pods/log", "pods/ephemeralcontainers"),
    rights(("create",), "serviceaccounts/token"),
    rights((*MANAGED, "deletecollection"), "nodes", "namespaces", "serviceaccounts"),
    rights((*MANAGED, "bind", "escalate"), "roles.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io"),
    rights(MANAGED, "rolebindings.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"),
    rights(MANAGED, "customresourcedefinitions.apiextensions.k8s.io", "persistentvolumes"),
    rights(("impersonate",), "users", "groups", "serviceaccounts"),
    rights(("deletecollection",), "persistentvolumeclaims", "decisionmodels.decisionmodel.io"),
)
MODELS = ("decisionmodels.decisionmodel.io",)
STATUS = rights(("get",), "decisionmodels/status.decisionmodel.io")
SCALE = "decisionmodels/scale.decisionmodel.io"
SCALING = rights(("get", "patch", "update"), SCALE)
USERS = {
    "view": rights(READ, *MODELS) | STATUS | rights(("get",), SCALE),
    "edit": rights(MANAGED, *MODELS) | STATUS | SCALING,
    "admin": rights((*MANAGED, "deletecollection"), *MODELS) | STATUS | SCALING,
    "unbound": frozenset[Right](),
}

WIDE, SCOPED = f"system:serviceaccount:{SYSTEM}:{OPERATOR}", f"system:serviceaccount:{SYSTEM}:scoped"
TABLE = {
    (WIDE, WATCHED): RECONCILER,
    (WIDE, OTHER): RECONCILER,
    (WIDE, SYSTEM): RECONCILER | LEASES,
    (SCOPED, WATCHED): RECONCILER,
    (SCOPED, OTHER): frozenset[Right](),
    (SCOPED, SYSTEM): LEASES,
}
"""What the reconciler may do where: installed for the whole cluster, and for one namespace."""


def user(name: str) -> str:
    return f"system:serviceaccount:{WATCHED}:{name}"


@pytest.fixture(scope="module")
def accounts(operator: Environment) -> Iterator[Kubectl]:
    """The accounts beside the installed reconciler's: a second one, whose rights are for one namespace, and users."""
    kubectl = operator.kubectl
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (WATCHED, OTHER)]
    scoped = [*scoped_rights()]
    kubectl.apply(*namespaces)
    kubectl.apply(*scoped, *(bound(role) for role in USERS if role != "unbound"))
    yield kubectl
    system = [
        f"{each['kind']}/{each['metadata']['name']}" for each in scoped if each["metadata"]["namespace"] == SYSTEM
    ]
    kubectl.run("delete", *system, "-n", SYSTEM)
    kubectl.run("delete", "namespace", WATCHED, OTHER, "--wait=false")


def scoped_rights() -> Iterator[Object]:
    """Yield the roles of an installation that watches one namespace, under names that leave the installed one alone."""
    configuration = stack_configuration("dev", None)
    manager = configuration.manager.model_copy(update={"watch_namespaces": [WATCHED]})
    for rendered in platform_manifests(configuration.model_copy(update={"manager": manager})):
        if rendered["kind"] not in ("Role", "RoleBinding"):
            continue
        renamed = json.loads(json.dumps(rendered))
        renamed["metadata"]["name"] += "-scoped"
        if rendered["kind"] == "RoleBinding":
            renamed["roleRef"]["name"] += "-scoped"
            renamed["subjects"][0]["name"] = "scoped"
        yield renamed


def bound(role: str) -> Object:
    """Return what gives a user of that name one of the cluster's own roles in the watched namespace."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role, "namespace": WATCHED},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": WATCHED, "name": role}],
    }


def permitted(kubectl: Kubectl, account: str, namespace: str, asked: Iterable[Right]) -> frozenset[Right]:
    """Return which of these rights the API server grants."""
    questions = sorted(asked)
    items = [review(account, namespace, right) for right in questions]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    answers = kubectl.run("create", "-f", "-", "-o", 'jsonpath={.status.allowed}{"\\n"}', stdin=listed).split()
    assert {*answers} <= {"true", "false"}
    return frozenset(right for right, answer in zip(questions, answers, strict=True) if answer == "true")


def review(account: str, namespace: str, right: Right) -> Object:
    path, _, group = right.resource.partition(".")
    resource, _, subresource = path.partition("/")
    attributes = {"verb": right.verb, "group": group, "resource": resource, "subresource": subresource}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": account, "resourceAttributes": {**attributes, "namespace": namespace}},
    }


def all_rights(kubectl: Kubectl, account: str, namespace: str) -> frozenset[Right]:
    """Return everything that an account may do in a namespace and an account without any role may not."""
    nobody = user("unbound")
    return frozenset({*_ruled(kubectl, account, namespace)} - {*_ruled(kubectl, nobody, namespace)})


def _ruled(kubectl: Kubectl, account: str, namespace: str) -> Iterator[Right]:
    question = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    # Checking the question first would take rights that the account need not have.
    options = ("--validate=false", f"--as={account}", "-o", "json")
    answer = kubectl.run("create", "-f", "-", *options, stdin=json.dumps(question))
    for rule in json.loads(answer)["status"]["resourceRules"]:
        named = (f"{each}.{group}".rstrip(".") for each, group in product(rule["resources"], rule["apiGroups"]))
        yield from rights(rule["verbs"], *named)


@pytest.mark.parametrize(("account", "namespace"), TABLE, ids=lambda name: name.rpartition(":")[2])
def test_the_reconciler_may_do_what_it_needs_and_nothing_else(accounts: Kubectl, account: str, namespace: str) -> None:
    expected = TABLE[account, namespace]
    assert not expected & NEVER
    assert permitted(accounts, account, namespace, RECONCILER | LEASES | NEVER) == expected
    assert all_rights(accounts, account, namespace) == expected


@pytest.mark.parametrize("role", USERS)
def test_users_may_do_to_models_what_their_role_says_where_they_are_bound(accounts: Kubectl, role: str) -> None:
    """The cluster adds to its own roles when it comes to it, so this waits."""
    asked = frozenset[Right]().union(
        *USERS.values(), rights(("update", "patch"), *(right.resource for right in STATUS))
    )

    def granted(namespace: str) -> frozenset[Right]:
        return permitted(accounts, user(role), namespace, asked)

    wait_until("the role to count", lambda: granted(WATCHED) == USERS[role], 30)
    assert granted(OTHER) == frozenset()

"""The platform as a real `pulumi up` installs it on a real cluster."""

from __future__ import annotations

import json

import pytest

from tools.deploy import PulumiStack
from tools.kubectl import Kubectl

pytestmark = pytest.mark.cluster

SYSTEM = "decision-model-operator-system"
MANAGER = "decision-model-operator-controller-manager"
ACCOUNT = f"system:serviceaccount:{SYSTEM}:{MANAGER}"


def test_the_reconciler_is_available_once_the_update_returns(platform: PulumiStack, kubectl: Kubectl) -> None:
    deployment = kubectl.get("deployment", MANAGER, SYSTEM)

    assert deployment is not None
    assert deployment["status"]["availableReplicas"] == deployment["spec"]["replicas"]


def test_a_second_update_has_nothing_to_do(platform: PulumiStack) -> None:
    platform.pulumi("preview", f"--stack={platform.stack}", "--expect-no-changes")


@pytest.mark.parametrize(
    ("verb", "group", "resource", "namespace", "allowed"),
    [
        ("create", "apps", "deployments", "default", True),
        ("patch", "", "persistentvolumeclaims", "default", True),
        ("patch", "decisionmodel.io", "decisionmodels/status", "default", True),
        ("patch", "", "pods/status", "default", True),
        ("get", "", "secrets", "default", True),
        ("update", "coordination.k8s.io", "leases", SYSTEM, True),
        ("list", "", "secrets", "default", False),
        ("watch", "", "secrets", "default", False),
        ("list", "", "configmaps", "default", False),
        ("create", "", "pods", "default", False),
        ("create", "", "pods/exec", "default", False),
        ("delete", "", "pods", "default", False),
        ("get", "", "nodes", "", False),
        ("get", "", "namespaces", "", False),
        ("update", "coordination.k8s.io", "leases", "default", False),
        ("create", "rbac.authorization.k8s.io", "rolebindings", "default", False),
    ],
)
def test_what_the_reconciler_may_do(
    platform: PulumiStack, kubectl: Kubectl, verb: str, group: str, resource: str, namespace: str, allowed: bool
) -> None:
    kind, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": kind, "subresource": subresource, "namespace": namespace}
    question = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "resourceAttributes": attributes},
    }

    answer = json.loads(kubectl.run("create", "-o", "json", "-f", "-", stdin=json.dumps(question)))

    assert answer["status"]["allowed"] is allowed

"""A stack on a real API server: what the engine applies never drifts, and what drifts is repaired."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pulumi import automation

from api.crd import CRD_FILE, CRD_NAME
from components.desired import DesiredRevision, DesiredStack, Owner
from components.drift import Cause, Drift, find_drift
from components.manifests import render
from components.program import ProviderSettings, converge
from tests.components.engines import Engine
from tests.components.stacks import PREFETCH, REVISION, SERVING, STORE, stack
from tools.cluster import clusters
from tools.kubectl import Kubectl
from tools.observer import wait_until_served

pytestmark = pytest.mark.cluster

NAMESPACE = "components-engine"
OTHER = "f" * 16
KINDS = "persistentvolumeclaims,jobs,deployments,poddisruptionbudgets,services"


@pytest.fixture(scope="module")
def kubectl() -> Iterator[Kubectl]:
    """A cluster of its own: on any other the platform's reconciler would take part."""
    cluster = clusters.up("components", print)
    client = Kubectl(cluster.kubeconfig)
    client.run("apply", "--server-side", "--force-conflicts", "-f", str(CRD_FILE))
    wait_until_served(client, CRD_NAME)
    client.run("create", "namespace", NAMESPACE)
    yield client
    cluster.down()


@pytest.fixture
def owner(kubectl: Kubectl) -> Iterator[Owner]:
    """A model that really exists: without it the garbage collector would take its children at once."""
    model = {
        "apiVersion": "decisionmodel.io/v1alpha1",
        "kind": "DecisionModel",
        "metadata": {"name": "laya", "namespace": NAMESPACE},
        "spec": {"model": "laya:en"},
    }
    created = json.loads(kubectl.run("create", "-o", "json", "-f", "-", stdin=json.dumps(model)))
    yield Owner(namespace=NAMESPACE, name="laya", uid=created["metadata"]["uid"])
    kubectl.run("delete", "decisionmodel", "laya", "-n", NAMESPACE, "--cascade=foreground", "--timeout=60s")


class Cluster:
    """The namespace under test, and the engine that converges it."""

    def __init__(self, kubectl: Kubectl, engine: Engine, owner: Owner) -> None:
        self._engine = engine
        self._owner = owner
        self.kubectl = kubectl

    def converge(self, desired: DesiredStack, *, refresh: bool = False) -> automation.UpResult:
        settings = ProviderSettings(kubeconfig=str(self.kubectl.kubeconfig), cluster_identifier="components-tests")
        program = functools.partial(converge, self.owned(desired), settings)
        return self._engine.stack(program).up(refresh=refresh)

    def drift(self, desired: DesiredStack) -> tuple[Drift, ...]:
        objects = self.kubectl.list(KINDS, NAMESPACE)
        return find_drift(render(self.owned(desired)), objects, self._owner.uid)

    def owned(self, desired: DesiredStack) -> DesiredStack:
        return replace(desired, owner=self._owner)

    def forget(self) -> None:
        """Lose the stack's state, and nothing else."""
        self._engine.forget()

    def patch(self, kind: str, name: str, patch: dict[str, Any]) -> None:
        self.kubectl.run("patch", kind, name, "-n", NAMESPACE, "--type=strategic", "-p", json.dumps(patch))


@pytest.fixture
def cluster(kubectl: Kubectl, engine: Engine, owner: Owner) -> Cluster:
    return Cluster(kubectl, engine, owner)


NAME = f"laya-{REVISION}"
CONTAINER = {"name": "ollaya"}


def template(spec: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


def test_what_was_applied_does_not_drift_and_is_not_applied_again(cluster: Cluster) -> None:
    cluster.converge(stack())
    assert cluster.drift(stack()) == ()
    assert cluster.converge(stack(), refresh=True).summary.resource_changes == {"same": 9}


EDITS = [
    ("deployment", NAME, {"spec": {"replicas": 3}}, "spec.replicas"),
    (
        "deployment",
        NAME,
        template({"containers": [{**CONTAINER, "image": "other"}]}),
        "spec.template.spec.containers[ollaya].image",
    ),
    (
        "deployment",
        NAME,
        template({"containers": [{**CONTAINER, "env": [{"name": "OLLAYA_MODELS", "value": "/tmp"}]}]}),
        "spec.template.spec.containers[ollaya].env[OLLAYA_MODELS].value",
    ),
    (
        "deployment",
        NAME,
        {"metadata": {"labels": {"decisionmodel.io/revision": None}}},
        "metadata.labels[decisionmodel.io/revision]",
    ),
    ("poddisruptionbudget", NAME, {"spec": {"maxUnavailable": 2}}, "spec.maxUnavailable"),
    (
        "service",
        "laya",
        {"spec": {"selector": {"decisionmodel.io/revision": OTHER}}},
        "spec.selector[decisionmodel.io/revision]",
    ),
]


def test_edits_are_found_and_repaired(cluster: Cluster) -> None:
    cluster.converge(stack())
    for kind, name, patch, _ in EDITS:
        cluster.patch(kind, name, patch)
    found = cluster.drift(stack())
    assert {drift.cause for drift in found} == {Cause.CHANGED}
    assert sorted(drift.path for drift in found) == sorted(path for *_, path in EDITS)
    cluster.converge(stack(), refresh=True)
    assert cluster.drift(stack()) == ()


def test_a_deleted_object_is_made_again(cluster: Cluster) -> None:
    cluster.converge(stack())
    cluster.kubectl.run("delete", "deployment", NAME, "-n", NAMESPACE)
    assert cluster.drift(stack()) == (Drift("Deployment", NAME, Cause.MISSING),)
    cluster.converge(stack(), refresh=True)
    assert cluster.drift(stack()) == ()


def test_a_restart_by_kubectl_is_no_drift_and_survives_a_repair(cluster: Cluster) -> None:
    cluster.converge(stack())
    cluster.kubectl.run("rollout", "restart", f"deployment/{NAME}", "-n", NAMESPACE)
    assert cluster.drift(stack()) == ()
    cluster.converge(stack(), refresh=True)
    live = cluster.kubectl.get("deployment", NAME, NAMESPACE)
    assert live is not None
    assert "kubectl.kubernetes.io/restartedAt" in live["spec"]["template"]["metadata"]["annotations"]


def test_a_job_that_would_be_rendered_differently_today_is_kept(cluster: Cluster) -> None:
    cluster.converge(stack())
    before = uid_of(cluster.kubectl.get("job", f"laya-pf-{REVISION}", NAMESPACE))
    other = stack(prefetch=replace(PREFETCH, script="exit 1", image="other"))
    assert cluster.drift(other) == ()
    cluster.converge(other)
    cluster.converge(other, refresh=True)
    assert uid_of(cluster.kubectl.get("job", f"laya-pf-{REVISION}", NAMESPACE)) == before


def test_a_switch_changes_the_service_alone_and_a_dropped_revision_goes(cluster: Cluster) -> None:
    candidate = DesiredRevision(hash=OTHER, store=STORE, prefetch=PREFETCH, serving=SERVING)
    both = replace(stack(), revisions=(*stack().revisions, candidate))
    cluster.converge(both)
    assert cluster.converge(replace(both, selected=OTHER)).summary.resource_changes == {"same": 12, "update": 1}
    left = replace(both, revisions=(candidate,), selected=OTHER)
    assert {drift.cause for drift in cluster.drift(left)} == {Cause.UNEXPECTED}
    cluster.converge(left)
    assert cluster.drift(left) == ()


def test_a_lost_state_takes_its_own_objects_over(cluster: Cluster) -> None:
    cluster.converge(stack())
    before = uid_of(cluster.kubectl.get("deployment", NAME, NAMESPACE))
    cluster.forget()
    cluster.converge(stack())
    assert uid_of(cluster.kubectl.get("deployment", NAME, NAMESPACE)) == before
    assert cluster.drift(stack()) == ()


def uid_of(obj: dict[str, Any] | None) -> str:
    assert obj is not None
    return str(obj["metadata"]["uid"])

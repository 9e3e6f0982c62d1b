"""What users, other owners and broken surroundings throw at the platform: a reason, never a lost rollout."""

from __future__ import annotations

import pytest

from tests.cluster.observing import Bench, reason
from tests.cluster.side_by_side import SideBySide
from tools.environment import REGISTRY
from tools.kubectl import wait_until
from tools.observer import Object, condition, phase

pytestmark = pytest.mark.cluster

side_by_side = SideBySide()


def test_a_host_that_is_not_allowed_is_refused_without_a_request(bench: Bench) -> None:
    bench.registry("DELETE", "/requests")
    bench.declare("router", "http://ollaya-registry.ollaya-registry.svc:8081/library/laya:en")
    model = bench.wait("router", "Failed", lambda dm: phase(dm) == "Failed")
    assert reason(model, "Ready") == "RegistryNotAllowed"
    assert bench.registry_requests() == []
    assert bench.children("router") == {}


def test_an_unreachable_registry_is_a_reason_and_recovers_by_itself(bench: Bench) -> None:
    scale = ("scale", f"deployment/{REGISTRY}", "-n", REGISTRY)
    bench.kubectl.run(*scale, "--replicas=0")
    try:
        wait_until("the registry to be gone", lambda: not bench.kubectl.list("pods", REGISTRY), 60)
        bench.declare("router")
        model = bench.wait("router", "Resolving", lambda dm: phase(dm) == "Resolving")
        assert reason(model, "Ready") == "ResolveFailed"
        assert condition(model, "Resolved")["message"]
    finally:
        bench.kubectl.run(*scale, "--replicas=1")
        bench.kubectl.run("rollout", "status", f"deployment/{REGISTRY}", "-n", REGISTRY, "--timeout=60s", timeout=90)
    bench.wait_ready("router", 150)


@side_by_side
def test_a_foreign_volume_claim_is_never_touched(bench: Bench) -> None:
    bench.declare("pilot")
    pilot = bench.wait("pilot", "resolved", lambda dm: "candidateRevision" in dm["status"])
    # Of the same spec in the same namespace: the other one's revision has the same hash.
    name = f"router-store-{pilot['status']['candidateRevision']['hash']}"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    assert_never_touched(bench, "PersistentVolumeClaim", name, spec)


@side_by_side
def test_a_foreign_service_is_never_touched(bench: Bench) -> None:
    spec = {"ports": [{"port": 80}], "selector": {"app": "somebody-elses"}}
    assert_never_touched(bench, "Service", "router", spec)


def assert_never_touched(bench: Bench, kind: str, name: str, spec: Object) -> None:
    """Let an object of somebody else stand in the way of a DecisionModel, until its owner deletes it."""
    bench.kubectl.apply(
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": bench.namespace}, "spec": spec}
    )
    before = bench.kubectl.get(kind, name, bench.namespace)
    assert before
    bench.declare("router")
    model = bench.wait("router", "in conflict", lambda dm: reason(dm, "Ready") == "ResourceConflict")
    assert condition(model, "Degraded")["status"] == "True"
    assert f"{kind} {bench.namespace}/{name}" in condition(model, "Ready")["message"]
    after = bench.kubectl.get(kind, name, bench.namespace)
    assert after
    assert {**after["spec"], **before["spec"]} == after["spec"]  # binding a claim names its volume
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    bench.kubectl.delete(kind, name, bench.namespace)
    bench.wait_ready("router", 120)


@side_by_side
def test_a_missing_tag_says_so_and_allocates_nothing(bench: Bench) -> None:
    bench.declare("router", "laya:there-is-none")
    model = bench.wait("router", "Failed", lambda dm: phase(dm) == "Failed")
    assert reason(model, "Resolved") == "ModelNotFound"
    assert bench.children("router") == {}


@side_by_side
def test_a_missing_tag_leaves_a_stable_ready(bench: Bench) -> None:
    bench.declare("router")
    stable = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    bench.edit("router", model="laya:there-is-none")
    model = bench.wait("router", "told", lambda dm: reason(dm, "Resolved") == "ModelNotFound")
    assert phase(model) == "Ready"
    assert bench.selected("router") == stable
    assert ("CandidateRejected" in dict(bench.events("router"))) is True


@side_by_side
def test_what_others_change_comes_back(bench: Bench) -> None:
    bench.declare("router")
    revision = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    deployment = f"router-{revision}"
    patch = '{"spec":{"selector":{"intruder":"yes"}}}'
    bench.kubectl.run("patch", "service", "router", "-n", bench.namespace, "--type=merge", "-p", patch)
    wait_until(
        "the selector to be put right",
        lambda: "intruder" not in (bench.kubectl.get("service", "router", bench.namespace) or {})["spec"]["selector"],
        30,
    )
    bench.kubectl.run("scale", f"deployment/{deployment}", "-n", bench.namespace, "--replicas=3")
    wait_until(
        "the replicas to be put right",
        lambda: (bench.kubectl.get("deployment", deployment, bench.namespace) or {})["spec"]["replicas"] == 1,
        30,
    )
    bench.kubectl.delete("deployment", deployment, bench.namespace)
    wait_until("the Deployment to be back", lambda: bench.kubectl.get("deployment", deployment, bench.namespace), 30)
    bench.kubectl.delete("service", "router", bench.namespace)
    wait_until("the Service to be back", lambda: bench.selected("router") == revision, 30)
    bench.wait_ready("router")

"""Rollouts on the real cluster, through the real engine, seen as users see them."""

from __future__ import annotations

import json

import pytest

from tests.cluster.observing import SYSTEM, Bench, no_failed_request, reason
from tools.kubectl import wait_until
from tools.observer import condition

pytestmark = pytest.mark.cluster


def test_a_model_is_resolved_cached_started_proved_and_reachable(bench: Bench) -> None:
    bench.declare("router")
    model = bench.wait_ready("router")
    stable = model["status"]["stableRevision"]
    assert bench.selected("router") == stable["hash"]
    assert model["status"]["endpoint"] == f"http://router.{bench.namespace}.svc:11435/v1/systemone"
    assert {type_: condition(model, type_)["status"] for type_ in ("Resolved", "Cached", "ModelReady", "Ready")} == {
        "Resolved": "True",
        "Cached": "True",
        "ModelReady": "True",
        "Ready": "True",
    }
    assert bench.children("router") == {
        "Deployment": [f"router-{stable['hash']}"],
        "ReplicaSet": bench.children("router")["ReplicaSet"],
        "Job": [f"router-pf-{stable['hash']}"],
        "PersistentVolumeClaim": [f"router-store-{stable['hash']}"],
        "ConfigMap": [f"router-manifest-{stable['hash']}"],
        "Service": ["router"],
        "Pod": bench.children("router")["Pod"],
    }
    told = [reason_ for reason_, _ in bench.events("router")]
    assert sorted(told) == sorted(["Resolved", "PrefetchStarted", "Cached", "RevisionStarting", "Promoted"])


def test_a_changed_model_is_promoted_and_a_broken_one_rolled_back_unnoticed(bench: Bench) -> None:
    bench.declare("router")
    first = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    with no_failed_request(bench, "router"):
        bench.edit("router", model="laya:multilingual")
        second = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
        wait_until("traffic to move", lambda: bench.selected("router") == second, 20)
        assert second != first
        bench.edit("router", model="laya:en-worse", digest="0" * 64)
        rejected = bench.wait_rejected("router")
    assert reason(rejected, "Degraded") == "PrefetchFailed"
    assert "UpstreamTagMoved" in condition(rejected, "Degraded")["message"]
    assert reason(rejected, "Ready") == "CandidateRejected"
    assert condition(rejected, "Ready")["status"] == "True"
    assert bench.selected("router") == second
    failed = rejected["status"]["failedRevision"]["hash"]
    wait_until(
        "the rejected revision's objects to go",
        lambda: not any(failed in name for names in bench.children("router").values() for name in names),
        60,
    )


def test_replicas_change_in_place_and_all_can_be_drained(bench: Bench) -> None:
    """Their store binds them to one node, so a drain has to be able to take them all."""
    bench.declare("router")
    before = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    first = serving(bench)
    with no_failed_request(bench, "router"):
        bench.edit("router", replicas=2)
        model = bench.wait_ready("router")
        assert model["status"]["replicas"] == {"current": 2, "desired": 2, "modelReady": 2}
    assert first < serving(bench), "the Pod that served goes on"
    drained = serving(bench)
    for pod in drained:  # an eviction that a budget refuses ends in an error
        evict(bench, pod)
    wait_until("other Pods", lambda: len(serving(bench) - drained) == 2, 60)
    bench.wait_ready("router")
    # A Pod that ends may still be sent a connection for the moment that the node's proxy takes to learn of it.
    bench.edit("router", replicas=1)
    after = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    assert after == before


def serving(bench: Bench) -> set[str]:
    """Names of the Pods that serve, or are about to."""
    return {
        pod["metadata"]["name"]
        for pod in bench.kubectl.list("pods", bench.namespace)
        if "readinessGates" in pod["spec"] and not pod["metadata"].get("deletionTimestamp")
    }


def evict(bench: Bench, pod: str) -> None:
    """Ask for what a drain asks for."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": bench.namespace}}
    path = f"/api/v1/namespaces/{bench.namespace}/pods/{pod}/eviction"
    bench.kubectl.run("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


def test_deletion_leaves_no_object_and_no_stack(bench: Bench) -> None:
    bench.declare("router")
    uid = bench.wait_ready("router")["metadata"]["uid"]
    stack = f"{bench.namespace}.router.{uid[:8]}"
    state = f"/var/lib/decisionmodel/state/.pulumi/stacks/decisionmodel/{stack}"
    look = ("exec", "deploy/decision-model-operator-controller-manager", "-n", SYSTEM, "--", "sh", "-c")
    assert bench.kubectl.run(*look, f"ls {state}*")
    bench.kubectl.delete("dm", "router", bench.namespace)
    wait_until("its objects to be collected", lambda: not bench.children("router"), 90)
    wait_until("its stack to go", lambda: not bench.kubectl.run(*look, f"ls {state}* 2>/dev/null || true").strip(), 30)


def test_a_recreated_model_starts_over(bench: Bench) -> None:
    bench.declare("router")
    first = bench.wait_ready("router")
    bench.kubectl.delete("dm", "router", bench.namespace)
    bench.declare("router")
    second = bench.wait_ready("router", 150)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert second["status"]["stableRevision"]["hash"] == first["status"]["stableRevision"]["hash"]

"""Generic tools on a real cluster: `kubectl wait` and `kubectl scale` on a DecisionModel do what they say."""

from __future__ import annotations

import json

import pytest

from tests.cluster.observing import Bench, no_failed_request, reason
from tools.observer import condition

pytestmark = pytest.mark.cluster


def kubectl_wait(bench: Bench, name: str, condition: str, seconds: int) -> None:
    waiting = ("wait", f"dm/{name}", "-n", bench.namespace, f"--for=condition={condition}", f"--timeout={seconds}s")
    bench.kubectl.run(*waiting, timeout=seconds + 10)


def test_waiters_see_the_end_of_a_rollout_and_scaling_reaches_the_pods(bench: Bench) -> None:
    bench.declare("router")
    kubectl_wait(bench, "router", "Reconciling=False", 90)
    first = bench.model("router")["status"]
    assert first["phase"] == "Ready"
    with no_failed_request(bench, "router"):
        bench.edit("router", model="laya:en-better")
        kubectl_wait(bench, "router", "Reconciling=False", 90)
        model = bench.model("router")
        assert model["status"]["stableRevision"]["model"] == "laya:en-better"
        assert condition(model, "Stalled")["status"] == "False"

        bench.kubectl.run("scale", "dm", "router", "-n", bench.namespace, "--replicas=2")
        kubectl_wait(bench, "router", "Reconciling=False", 90)
        revision = model["status"]["stableRevision"]["hash"]
        deployment = bench.kubectl.get("deployment", f"router-{revision}", bench.namespace) or {}
        assert deployment["spec"]["replicas"] == deployment["status"]["readyReplicas"] == 2
        path = f"/apis/decisionmodel.io/v1alpha1/namespaces/{bench.namespace}/decisionmodels/router/scale"
        scale = json.loads(bench.kubectl.run("get", "--raw", path))
        selector = f"decisionmodel.io/name=router,decisionmodel.io/revision={revision}"
        assert scale["spec"]["replicas"] == 2
        assert scale["status"] == {"replicas": 2, "selector": selector}
        assert len(bench.kubectl.list("pods", bench.namespace, selector)) == 2

        bench.edit("router", model="laya:there-is-none")
        kubectl_wait(bench, "router", "Stalled=True", 60)
        assert reason(bench.model("router"), "Stalled") == "ModelNotFound"
        assert condition(bench.model("router"), "Ready")["status"] == "True"

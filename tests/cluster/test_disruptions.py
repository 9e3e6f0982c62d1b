"""Pods that end without the platform's doing: what serves goes on, and no revision is blamed for it."""

from __future__ import annotations

import json
import time

import pytest

from reconciler.rollout.timing import UNHEALTHY_DEBOUNCE
from tests.cluster.observing import Bench, asked_all_along, no_failed_request, reason
from tests.cluster.side_by_side import SideBySide
from tools.kubectl import wait_until
from tools.observer import Object, condition, phase

pytestmark = pytest.mark.cluster

side_by_side = SideBySide()

SOON = 90.0
"""Seconds from an edit to a promotion, on a busy machine: far less than the starting deadline of ten minutes."""
LONGER_THAN_UNHEALTHY = UNHEALTHY_DEBOUNCE + 5


def evict(bench: Bench, pod: str) -> None:
    """Ask for an eviction as `kubectl drain` does."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": bench.namespace},
    }
    path = f"/api/v1/namespaces/{bench.namespace}/pods/{pod}/eviction"
    bench.kubectl.run("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


def running(bench: Bench, name: str, revision: str) -> list[Object]:
    pods = bench.serving_pods(name, revision)
    return [pod for pod in pods if pod["status"].get("phase") not in ("Failed", "Succeeded")]


@side_by_side
def test_a_pod_that_has_ended_and_stays_holds_up_no_recreate_rollout(bench: Bench) -> None:
    bench.declare("evicted", rollout={"strategy": "Recreate"})
    first = bench.wait_ready("evicted")["status"]["stableRevision"]["hash"]
    (pod,) = bench.serving_pods("evicted", first)
    name = pod["metadata"]["name"]
    # What an eviction, a shutdown of the node or a refused admission leaves: phase Failed, and the object stays.
    end = json.dumps({"spec": {"activeDeadlineSeconds": 1}})
    bench.kubectl.run("patch", "pod", name, "-n", bench.namespace, "--type=merge", "-p", end)

    def has_failed() -> bool:
        found = bench.kubectl.get("pod", name, bench.namespace) or {}
        return bool(found.get("status", {}).get("phase") == "Failed")

    wait_until("the Pod to end", has_failed, 180)
    wait_until("another one in its place", lambda: len(bench.endpoints("evicted") - {name}) == 1, 180)
    bench.edit("evicted", model="laya:multilingual")
    bench.wait_ready("evicted", SOON)
    assert has_failed(), "nobody has cleaned up"
    assert running(bench, "evicted", first) == []


@side_by_side
def test_neither_more_replicas_nor_an_eviction_in_the_window_take_a_revision_back(bench: Bench) -> None:
    bench.declare("scaled")
    first = bench.wait_ready("scaled")["status"]["stableRevision"]["hash"]
    with no_failed_request(bench, "scaled"):
        bench.edit("scaled", model="laya:en-better")
        second = bench.wait_ready("scaled", 240)["status"]["stableRevision"]["hash"]
        bench.wait_selected("scaled", second)
        bench.edit("scaled", replicas=3)
        bench.wait_ready("scaled", 240)
        evict(bench, running(bench, "scaled", second)[0]["metadata"]["name"])
        wait_until("three Pods again", lambda: len(bench.endpoints("scaled")) == 3, 180)
        bench.wait_ready("scaled", 180)
    assert bench.told("scaled", "RolledBackAfterPromotion") == 0
    assert "failedRevision" not in bench.model("scaled")["status"]
    assert bench.selected("scaled") == second
    assert first != second


@side_by_side
def test_the_old_revision_stands_in_for_one_that_finds_no_node(bench: Bench) -> None:
    bench.declare("drained")
    first = bench.wait_ready("drained")["status"]["stableRevision"]["hash"]
    bench.edit("drained", model="laya:en-better")
    second = bench.wait_ready("drained", 240)["status"]["stableRevision"]["hash"]
    bench.wait_selected("drained", second)
    (pod,) = running(bench, "drained", second)
    with asked_all_along(bench, "drained") as counted:
        # No other Pod of this namespace is let in until the quota goes.
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "1"}}}
        bench.kubectl.apply({**quota, "metadata": {"name": "full", "namespace": bench.namespace}})
        evict(bench, pod["metadata"]["name"])
        bench.wait_selected("drained", first)
        wait_until("its Pod to be in the endpoints", lambda: len(bench.endpoints("drained")) == 1, 30)
        model = bench.wait("drained", "stood in for", lambda dm: reason(dm, "Stabilizing") == "ServedByPrevious", 30)
        assert phase(model) == "Degraded"
        before = counted()["failed"]
        time.sleep(LONGER_THAN_UNHEALTHY)
        model = bench.model("drained")
        assert model["status"]["stableRevision"]["hash"] == second
        assert condition(model, "Ready")["status"] == "True"
        assert first in condition(model, "Ready")["message"]
        bench.kubectl.delete("resourcequota", "full", bench.namespace)
        wait_until("traffic to return", lambda: bench.selected("drained") == second, 240)
        bench.wait_ready("drained", 180)
        assert counted()["failed"] == before, "nothing failed while it was stood in for, or when traffic returned"
    assert bench.told("drained", "RolledBackAfterPromotion") == 0

"""Proof is asked for again and again, and a rejected revision is tried again only when somebody says so."""

from __future__ import annotations

import json

import pytest

from tests.cluster.observing import Bench, no_failed_request, reason
from tools.kubectl import wait_until
from tools.observer import phase

pytestmark = pytest.mark.cluster

BROKEN = {"model": "laya:en-worse", "digest": "0" * 64}
SLOW = {"kind": "stall", "after_bytes": 1, "seconds": 15}


def test_a_model_that_leaves_memory_leaves_the_service_until_it_is_back(bench: Bench) -> None:
    bench.declare("router")
    bench.wait_ready("router")
    (pod,) = bench.kubectl.list("pods", bench.namespace, "decisionmodel.io/name=router,decisionmodel.io/revision")
    wait_until("the endpoint", lambda: len(bench.endpoints("router")) == 1, 30)
    bench.unload(pod["metadata"]["name"], "laya:en")
    wait_until("the gate to close", lambda: not bench.endpoints("router"), 90)
    wait_until("the model to be loaded and proved again", lambda: len(bench.endpoints("router")) == 1, 60)
    bench.wait_ready("router", 60)


def test_a_candidate_without_a_place_is_given_up_at_its_deadline(bench: Bench) -> None:
    bench.declare("router", rollout={"timeouts": {"starting": "1m"}})
    stable = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    with no_failed_request(bench, "router"):
        bench.edit("router", resources={"requests": {"cpu": "64", "memory": "32Mi"}})
        rejected = bench.wait_rejected("router", 180)
    assert rejected["status"]["failedRevision"]["reason"] == "StartTimeout"
    assert bench.selected("router") == stable
    wait_until("its objects to go", lambda: len(bench.children("router")["Deployment"]) == 1, 60)


def test_a_rejected_revision_is_tried_again_once_for_each_word_of_a_person(bench: Bench) -> None:
    bench.declare("router")
    bench.wait_ready("router")
    bench.annotate("router", "decisionmodel.io/retry", "nothing-failed")
    wait_until("the answer", lambda: bench.told("router", "RetryNoop") == 1, 30)
    with no_failed_request(bench, "router"):
        bench.edit("router", **BROKEN)
        bench.wait_rejected("router")
        bench.annotate("router", "decisionmodel.io/retry", "first")
        wait_until("a second attempt", lambda: bench.told("router", "PrefetchStarted") == 3, 60)
        wait_until("its end", lambda: bench.told("router", "RolledBack") == 2, 90)
        bench.annotate("router", "unrelated", "change")
    model = bench.wait_rejected("router")
    assert model["status"]["lastRetryToken"] == "first"
    assert bench.told("router", "PrefetchStarted") == 3


def test_what_nobody_needs_goes_after_the_grace_and_nothing_else(bench: Bench) -> None:
    bench.declare("router", rollout={"stabilization": "0s"})
    first = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    labels = {"decisionmodel.io/name": "router", "decisionmodel.io/revision": first}
    metadata = {"name": "foreign", "namespace": bench.namespace, "labels": labels}
    spec = {"ports": [{"port": 1}], "selector": {"nobody": "there"}}
    bench.kubectl.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    bench.edit("router", model="laya:en-better")
    second = bench.wait_ready("router")["status"]["stableRevision"]["hash"]

    def left() -> bool:
        children = bench.children("router")
        names = {name for kind in ("Deployment", "PersistentVolumeClaim", "Job") for name in children.get(kind, ())}
        return bool(names) and all(second in name for name in names)

    with no_failed_request(bench, "router"):
        wait_until("the old revision's objects to go", left, 120)
    assert bench.kubectl.get("configmap", f"router-manifest-{first}", bench.namespace) is None
    assert bench.kubectl.get("service", "foreign", bench.namespace)


def test_a_broken_manifest_is_made_again_and_the_rollout_goes_on(bench: Bench) -> None:
    bench.registry("PUT", "/switches", [{"path": "*/blobs/*", "times": None, "failure": SLOW}])
    try:
        bench.declare("router")
        bench.wait("router", "caching", lambda dm: phase(dm) == "Caching", 60)
        revision = bench.model("router")["status"]["candidateRevision"]["hash"]
        manifest = f"router-manifest-{revision}"
        wait_until("the Job", lambda: bench.children("router").get("Job"), 60)
        broken = json.dumps({"binaryData": {"manifest": "e30="}})
        bench.kubectl.run("patch", "configmap", manifest, "-n", bench.namespace, "--type=merge", "-p", broken)
        wait_until("the repair", lambda: bench.told("router", "ManifestRepaired") == 1, 60)
    finally:
        bench.registry("PUT", "/switches", [])
    model = bench.wait_ready("router", 150)
    assert reason(model, "Resolved") == "Resolved"

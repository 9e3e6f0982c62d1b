"""What keeps a serving model alive on the real cluster: its store, its key, and a person's word."""

from __future__ import annotations

import base64

import pytest

from tests.cluster.observing import Bench, no_failed_request, reason
from tools.kubectl import KubectlError, wait_until
from tools.observer import condition, phase

pytestmark = pytest.mark.cluster

QUESTION = (
    "import json,sys,urllib.request as u,urllib.error as e\n"
    "h={'Content-Type':'application/json'}\n"
    "if sys.argv[2]: h['Authorization']='Bearer '+sys.argv[2]\n"
    "b=json.dumps({'model':'laya:en','state':'refund','questions':{'q':{'type':'noul'}}}).encode()\n"
    "try: print(u.urlopen(u.Request(sys.argv[1],b,h),timeout=10).status)\n"
    "except e.HTTPError as x: print(x.code)\n"
)


def answer_status(bench: Bench, name: str, key: str) -> str:
    url = f"http://{name}.{bench.namespace}.svc:11435/v1/systemone"
    asked_from = ("exec", "deploy/ollaya-registry", "-n", "ollaya-registry", "--", "python3", "-c", QUESTION)
    try:
        return bench.kubectl.run(*asked_from, url, key).strip()
    except KubectlError:
        return "unreachable"


def key_secret(bench: Bench, value: str, labels: dict[str, str]) -> None:
    bench.kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "key", "namespace": bench.namespace, "labels": labels},
            "data": {"value": base64.b64encode(value.encode()).decode()},
        }
    )


def test_a_lost_store_is_filled_again_under_the_same_revision(bench: Bench) -> None:
    bench.declare("router")
    revision = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    claim = f"router-store-{revision}"
    before = bench.kubectl.get("pvc", claim, bench.namespace)
    assert before
    # The claim goes only with the Pods that use it.
    bench.kubectl.delete("pvc", claim, bench.namespace, "--wait=false")
    bench.wait("router", "told about its store", lambda dm: reason(dm, "Degraded") == "StoreTerminating")
    bench.kubectl.run("delete", "pods", "-n", bench.namespace, "-l", f"decisionmodel.io/revision={revision}")

    def replaced() -> bool:
        claim_now = bench.kubectl.get("pvc", claim, bench.namespace)
        return bool(claim_now and claim_now["metadata"]["uid"] != before["metadata"]["uid"])

    wait_until("a new claim", replaced, 90)
    model = bench.wait_ready("router", 150)
    assert model["status"]["stableRevision"]["hash"] == revision
    wait_until(
        "the mark to go",
        lambda: (
            "decisionmodel.io/store-recovering"
            not in (bench.kubectl.get("pvc", claim, bench.namespace) or {})["metadata"].get("annotations", {})
        ),
        60,
    )
    assert answer_status(bench, "router", "") == "200"


def test_only_who_has_the_key_gets_an_answer_and_a_rotation_is_picked_up(bench: Bench) -> None:
    key_secret(bench, "first", {})
    bench.declare("router", auth={"apiKeySecretRef": {"name": "key", "key": "value"}})
    refused = bench.wait("router", "refused", lambda dm: reason(dm, "Ready") == "SecretNotAllowed")
    assert phase(refused) == "Degraded"
    key_secret(bench, "first", {"decisionmodel.io/api-key": "true"})
    bench.wait_ready("router", 150)
    assert [answer_status(bench, "router", key) for key in ("", "wrong", "first")] == ["401", "401", "200"]
    key_secret(bench, "second", {"decisionmodel.io/api-key": "true"})
    wait_until("the new key to count", lambda: answer_status(bench, "router", "second") == "200", 150)
    assert "first" not in bench.operator_log(2000)


def test_a_manual_rollout_waits_for_a_persons_word(bench: Bench) -> None:
    bench.declare("router", rollout={"promotion": "Manual"})
    stable = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    with no_failed_request(bench, "router"):
        bench.edit("router", model="laya:en-better")
        parked = bench.wait("router", "parked", lambda dm: phase(dm) == "AwaitingPromotion")
        candidate = parked["status"]["candidateRevision"]["hash"]
        assert bench.selected("router") == stable
        bench.annotate("router", "decisionmodel.io/promote", candidate)
        bench.wait_ready("router")
        wait_until("traffic to move", lambda: bench.selected("router") == candidate, 20)
    assert bench.told("router", "Promoted") == 2


def test_a_cache_that_cannot_follow_says_so_and_touches_nothing(bench: Bench) -> None:
    bench.declare("router")
    revision = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    with no_failed_request(bench, "router"):
        bench.edit("router", cache={"size": "32Mi"})
        model = bench.wait("router", "told", lambda dm: reason(dm, "Degraded") == "CacheSpecImmutable")
        assert phase(model) == "Ready"
        assert condition(model, "Degraded")["message"]
    claim = bench.kubectl.get("pvc", f"router-store-{revision}", bench.namespace)
    assert claim
    assert claim["spec"]["resources"]["requests"]["storage"] == "64Mi"
    bench.edit("router", cache={"size": "64Mi"})
    bench.wait("router", "content", lambda dm: not condition(dm, "Degraded"))

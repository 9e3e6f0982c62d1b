"""What keeps a serving model alive on the real cluster: its store, its key, and a person's word.

And that nothing is kept, tried or repaired beyond that. Most of it waits for the next look at something, a minute away.
"""

from __future__ import annotations

import base64
import json

import pytest

from tests.cluster.observing import Bench, asked_all_along, no_failed_request, reason
from tests.cluster.side_by_side import SideBySide
from tools.kubectl import KubectlError, wait_until
from tools.observer import Object, condition, phase

pytestmark = pytest.mark.cluster

side_by_side = SideBySide()

OPENED = {"decisionmodel.io/api-key": "true"}
KEYED = {"apiKeySecretRef": {"name": "key", "key": "value"}}
FIRST_KEY, SECOND_KEY = "key-before-the-rotation", "key-after-the-rotation"
PROMOTE = "decisionmodel.io/promote"
MARK = "decisionmodel.io/store-recovering"
BROKEN = {"model": "laya:en-worse", "digest": "0" * 64}
SLOW = {"kind": "stall", "after_bytes": 1, "seconds": 15}

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


@side_by_side
def test_only_who_has_the_key_gets_an_answer_and_a_rotation_is_picked_up(bench: Bench) -> None:
    """Only one node can mount the store, so the Pod with the old key goes before the one with the new key comes."""
    key_secret(bench, FIRST_KEY, OPENED)
    bench.declare("router", auth=KEYED)
    bench.wait_ready("router", 150)
    assert [answer_status(bench, "router", key) for key in ("", "wrong", FIRST_KEY)] == ["401", "401", "200"]
    with asked_all_along(bench, "router", FIRST_KEY, SECOND_KEY) as counted:
        key_secret(bench, SECOND_KEY, OPENED)
        wait_until("the rotation to be picked up", lambda: rolls(bench), 75)
        wait_until("the new key to count", lambda: answer_status(bench, "router", SECOND_KEY) == "200", 75)
        bench.wait_ready("router")
        tally = counted()
    (roll,) = rolls(bench)
    assert tally["outages"] == 1, tally
    assert tally["errors"][0] >= roll["firstTimestamp"], "the old key counts until the rotation is picked up"
    assert answer_status(bench, "router", FIRST_KEY) == "401"
    assert not any(key in bench.operator_log(2000) for key in (FIRST_KEY, SECOND_KEY))


def rolls(bench: Bench) -> list[Object]:
    """Return the Events of Deployments that stopped the Pods of an older template."""
    scalings = (each for each in bench.kubectl.list("events", bench.namespace) if each["reason"] == "ScalingReplicaSet")
    return [each for each in scalings if each["message"].startswith("Scaled down")]


@side_by_side
def test_a_key_that_is_not_opened_for_this_use_is_refused_until_it_is(bench: Bench) -> None:
    key_secret(bench, FIRST_KEY, {})
    bench.declare("router", auth=KEYED)
    refused = bench.wait("router", "refused", lambda dm: reason(dm, "Ready") == "SecretNotAllowed")
    assert phase(refused) == "Degraded"
    key_secret(bench, FIRST_KEY, OPENED)
    bench.wait_ready("router", 150)
    assert answer_status(bench, "router", FIRST_KEY) == "200"


@side_by_side
def test_a_lost_store_is_filled_again_under_the_same_revision(bench: Bench) -> None:
    bench.declare("router")
    revision = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    before = store(bench, revision)["uid"]
    with asked_all_along(bench, "router") as counted:
        # The claim goes only with the Pods that use it.
        bench.kubectl.delete("pvc", f"router-store-{revision}", bench.namespace, "--wait=false")
        bench.wait("router", "told about its store", lambda dm: reason(dm, "Degraded") == "StoreTerminating")
        assert counted()["failed"] == 0
        bench.kubectl.run("delete", "pods", "-n", bench.namespace, "-l", f"decisionmodel.io/revision={revision}")
        wait_until("a new claim", lambda: store(bench, revision).get("uid", before) != before, 90)
        model = bench.wait_ready("router", 150)
        assert model["status"]["stableRevision"]["hash"] == revision
        wait_until("the mark to go", lambda: MARK not in store(bench, revision).get("annotations", {}), 60)
        assert answer_status(bench, "router", "") == "200"
        tally = counted()
    assert tally["outages"] == 1, tally


def store(bench: Bench, revision: str) -> Object:
    """Return the metadata of the claim that holds a revision's files, empty while there is none."""
    claim = bench.kubectl.get("pvc", f"router-store-{revision}", bench.namespace) or {}
    return dict(claim.get("metadata", {}))


@side_by_side
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


@side_by_side
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


def uids(bench: Bench, revision: str) -> dict[str, str]:
    """Return the UIDs of what answers requests, or would."""
    names = {"service": "router", "deployment": f"router-{revision}", "pvc": f"router-store-{revision}"}
    found = {kind: bench.kubectl.get(kind, name, bench.namespace) for kind, name in names.items()}
    return {kind: obj["metadata"]["uid"] if obj else "" for kind, obj in found.items()}


def lose_status(bench: Bench) -> None:
    """Empty the status, as restoring a backup does, or a wrong edit."""
    empty = json.dumps({"status": None})
    bench.kubectl.run(
        "patch", "dm", "router", "-n", bench.namespace, "--subresource=status", "--type=merge", "-p", empty
    )


@side_by_side
def test_a_lost_status_is_rebuilt_from_what_serves_and_no_request_fails(bench: Bench) -> None:
    bench.declare("router")
    before = bench.wait_ready("router")["status"]["stableRevision"]
    answering = uids(bench, before["hash"])
    with no_failed_request(bench, "router"):
        lose_status(bench)
        wait_until("the record", lambda: bench.told("router", "StatusRecovered") == 1, 30)
        after = bench.wait_ready("router")["status"]["stableRevision"]
        assert uids(bench, before["hash"]) == answering
    assert {**before, "precision": ""} == {**after, "precision": ""}


@side_by_side
def test_a_manual_rollout_waits_for_a_persons_word(bench: Bench) -> None:
    """Whatever becomes of its finished Job and of the record of it meanwhile."""
    bench.declare("router", rollout={"promotion": "Manual"})
    stable = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    with no_failed_request(bench, "router"):
        bench.edit("router", model="laya:en-better")
        parked = bench.wait("router", "parked", lambda dm: phase(dm) == "AwaitingPromotion")
        candidate = parked["status"]["candidateRevision"]["hash"]
        assert bench.selected("router") == stable
        parts = uids(bench, candidate)
        collected = json.dumps({"spec": {"ttlSecondsAfterFinished": 0}})
        job = f"router-pf-{candidate}"
        bench.kubectl.run("patch", "job", job, "-n", bench.namespace, "--type=merge", "-p", collected)
        wait_until("the Job to be collected", lambda: bench.kubectl.get("job", job, bench.namespace) is None, 30)
        lose_status(bench)
        bench.wait("router", "parked again", lambda dm: phase(dm) == "AwaitingPromotion")
        assert uids(bench, candidate) == parts
        assert bench.kubectl.get("job", job, bench.namespace) is None
        bench.annotate("router", "decisionmodel.io/promote", candidate)
        bench.wait_ready("router")
        wait_until("traffic to move", lambda: bench.selected("router") == candidate, 20)
    assert bench.told("router", "Promoted") == 2
    wait_until("the approval to be taken out", lambda: PROMOTE not in notes_on(bench), 20)
    # As GitOps puts it back, again and again.
    bench.annotate("router", PROMOTE, candidate)
    bench.wait("router", "at rest", lambda dm: dm["status"]["lastApproval"] == candidate)
    written = bench.model("router")["metadata"]["resourceVersion"]
    bench.wait_ready("router")
    assert notes_on(bench)[PROMOTE] == candidate
    assert bench.model("router")["metadata"]["resourceVersion"] == written


def notes_on(bench: Bench) -> dict[str, str]:
    return dict(bench.model("router")["metadata"].get("annotations", {}))


@side_by_side
def test_a_model_that_is_deleted_without_its_children_and_made_again_serves_on(bench: Bench) -> None:
    bench.declare("router")
    revision = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    before = {pod["metadata"]["uid"] for pod in bench.serving_pods("router", revision)}
    with no_failed_request(bench, "router"):
        bench.kubectl.run("delete", "dm", "router", "-n", bench.namespace, "--cascade=orphan", "--wait=true")
        bench.declare("router")
        owner = bench.wait_ready("router", 120)["metadata"]["uid"]
        wait_until("the Deployment to be its own", lambda: owners(bench, f"router-{revision}") == [owner], 30)
    assert {pod["metadata"]["uid"] for pod in bench.serving_pods("router", revision)} == before
    assert store(bench, revision)["ownerReferences"][0]["uid"] == owner


def owners(bench: Bench, deployment: str) -> list[str]:
    found = bench.kubectl.get("deployment", deployment, bench.namespace) or {"metadata": {}}
    return [each["uid"] for each in found["metadata"].get("ownerReferences", ())]


@side_by_side
def test_a_broken_manifest_is_made_again_and_the_rollout_goes_on(bench: Bench) -> None:
    bench.registry("PUT", "/switches", [{"path": "*/nli/blobs/*", "times": None, "failure": SLOW}])
    try:
        bench.declare("router", "nli:latest")
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


@side_by_side
def test_what_excludes_ours_is_taken_back(bench: Bench) -> None:
    """Beside what another manager set, the API server would refuse ours, every time."""
    edits: dict[str, tuple[str, Object]] = {
        "router": ("deployment", {"strategy": {"type": "RollingUpdate"}}),
        "spread": ("poddisruptionbudget", {"maxUnavailable": None, "minAvailable": 1}),
    }
    bench.declare("router")
    bench.declare("spread", replicas=2, cache={"size": "64Mi", "accessModes": ["ReadWriteMany"]})
    names = {name: f"{name}-{bench.wait_ready(name, 150)['status']['stableRevision']['hash']}" for name in edits}

    def specs() -> dict[str, Object]:
        found = {name: bench.kubectl.get(kind, names[name], bench.namespace) for name, (kind, _) in edits.items()}
        return {name: (obj or {}).get("spec", {}) for name, obj in found.items()}

    declared = specs()
    with no_failed_request(bench, "router"):
        for name, (kind, change) in edits.items():
            patch = json.dumps({"spec": change})
            bench.kubectl.run("patch", kind, names[name], "-n", bench.namespace, "--type=merge", "-p", patch)
        wait_until("both as declared", lambda: specs() == declared, 60)
    for name in edits:
        bench.wait_ready(name)


@side_by_side
def test_what_other_tools_note_on_pods_restarts_them_once_and_costs_no_operation(bench: Bench) -> None:
    """As Rancher's redeploy and Reloader do; what they change besides is taken back."""
    bench.declare("router", replicas=2)
    name = f"router-{bench.wait_ready('router', 150)['status']['stableRevision']['hash']}"
    before = operations(bench, "router")
    assert before
    noted = {"cattle.io/timestamp": "now", "reloader.stakater.com/last-reloaded-from": "{}"}
    template = json.dumps({"spec": {"template": {"metadata": {"annotations": noted}}}})
    bench.kubectl.run("patch", "deployment", name, "-n", bench.namespace, "--type=merge", "-p", template)
    bench.kubectl.run("rollout", "status", f"deployment/{name}", "-n", bench.namespace, "--timeout=90s", timeout=100)
    bench.wait_ready("router")
    deployment = declared(bench, name)
    assert deployment["spec"]["template"]["metadata"]["annotations"].items() >= noted.items()
    assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    assert operations(bench, "router") == before

    bench.kubectl.run("set", "env", f"deployment/{name}", "-n", bench.namespace, "STAKATER_KEY=x")
    deployment = wait_until(
        "the variable to be taken out",
        lambda: live if "STAKATER_KEY" not in json.dumps((live := declared(bench, name))["spec"]) else None,
        60,
    )
    assert deployment["spec"]["template"]["metadata"]["annotations"].items() >= noted.items()


def declared(bench: Bench, name: str) -> Object:
    return bench.kubectl.get("deployment", name, bench.namespace) or {}


def operations(bench: Bench, name: str) -> list[str]:
    """Return what the reconciler's log tells of the operations on a model's stack."""
    stack = f"{bench.namespace}.{name}."
    return [line for line in bench.operator_log(5000).splitlines() if f"of stack {stack}" in line]


@side_by_side
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

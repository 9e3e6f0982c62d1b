"""The readiness gate between what a runtime reports and who gets traffic, on the real cluster (spec section 6).

An open gate is looked at once a minute, and it takes four looks to close one that teaches nothing. So the models whose
runtimes turn bad while they serve are made first, and everything else happens between those looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from tests.cluster.observing import Bench, fresh_namespace, gate, reason, without_reconciler
from tools.environment import Environment
from tools.kubectl import wait_until
from tools.observer import Object, condition, phase

pytestmark = pytest.mark.cluster

UNPROVABLE = {
    "foreign": ("laya:en-wrong-digest", "DigestMismatch"),
    "gpu": ("laya:en-on-gpu", "DeviceMismatch"),
    "metal": ("laya:en-wrong-device", "DeviceMismatch"),
    "unpinned": ("laya:en-unpinned", "NotPinned"),
    "unloadable": ("laya:en-no-load", "ProbeError"),
}
LOOK, REFUSED_LOOK = "GET /api/ps 200", "GET /api/ps 401"
FOUR_LOOKS = 4 * 60 + 30


@dataclass(frozen=True, slots=True)
class Turned:
    """Ready models, each with one Pod whose runtime turned bad while nobody looked; gates as they were until then."""

    bench: Bench
    pods: dict[str, str]
    gates: dict[str, Object]

    def gate(self, name: str) -> Object:
        """Return the gate of the Pod that turned bad."""
        pod = self.bench.kubectl.get("pod", self.pods[name], self.bench.namespace)
        assert pod
        return gate(pod)

    def wait_closed(self, name: str, why: str, timeout: float) -> Object:
        """Wait until the gate is closed for that reason; return it."""

        def look() -> Object | None:
            found = self.gate(name)
            return found if (found["status"], found["reason"]) == ("False", why) else None

        return wait_until(f"the gate of {name} to close with {why}", look, timeout)

    def looks(self, name: str, answered: str) -> int:
        """Return how many looks the runtime that turned bad has answered in that way."""
        return self.bench.runtime_requests(self.pods[name]).get(answered, 0)


@pytest.fixture(scope="module", autouse=True)
def turned(operator: Environment) -> Iterator[Turned]:
    with fresh_namespace(operator) as bench:
        for name, replicas in {"foreign": 2, "unpinned": 1, "patient": 1, "refused": 1}.items():
            bench.declare(name, replicas=replicas)
        first = {name: first_pod(bench, name) for name in ("foreign", "unpinned", "patient", "refused")}
        pods = {name: pod["metadata"]["name"] for name, pod in first.items()}
        # A reconciler that has just been started looks at once, and knows of no earlier look.
        with without_reconciler(bench.kubectl):
            bench.runtime(pods["foreign"], {"digest": "0" * 64})
            bench.load(pods["unpinned"], "laya:en", "1h")
            for name in ("patient", "refused"):
                bench.runtime(pods[name], {"unauthorized": True})
        yield Turned(bench, pods, {name: gate(pod) for name, pod in first.items()})


def first_pod(bench: Bench, name: str) -> Object:
    """Return a serving Pod of a model once that is Ready."""
    revision = bench.wait_ready(name, 120)["status"]["stableRevision"]["hash"]
    return bench.serving_pods(name, revision)[0]


def test_other_bytes_in_a_serving_pod_take_it_out_of_the_service(turned: Turned) -> None:
    bench, pod = turned.bench, turned.pods["foreign"]
    closed = turned.wait_closed("foreign", "DigestMismatch", 60)
    assert "000000000000" in closed["message"]
    model = bench.wait("foreign", "short of a Pod", lambda dm: phase(dm) == "Degraded", 30)
    assert model["status"]["replicas"] == {"desired": 2, "modelReady": 1}
    assert (condition(model, "Ready")["status"], reason(model, "Ready")) == ("True", "Ready")
    assert reason(model, "ModelReady") == reason(model, "Degraded") == "ReplicasNotModelReady"
    wait_until("the other Pod to be alone", lambda: len(bench.endpoints("foreign")) == 1, 30)
    assert pod not in bench.endpoints("foreign")
    wait_until("the mismatch to be told", lambda: bench.told("foreign", "ProbeMismatch") == 1, 30)
    bench.runtime(pod, {"digest": None})
    bench.wait_ready("foreign", 60)
    wait_until("both Pods to be back", lambda: len(bench.endpoints("foreign")) == 2, 30)


def test_a_client_that_replaces_the_pin_keeps_the_pod_out_only_until_it_is_pinned_again(turned: Turned) -> None:
    bench, before = turned.bench, turned.gates["unpinned"]["lastTransitionTime"]
    wait_until("the mismatch to be told", lambda: bench.told("unpinned", "ProbeMismatch") == 1, 60)
    assert any("pinned" in note for reason_, note in bench.events("unpinned") if reason_ == "ProbeMismatch")

    def reopened() -> bool:
        found = turned.gate("unpinned")
        return bool(found["status"] == "True" and found["lastTransitionTime"] > before)

    wait_until("the gate to open again", reopened, 30)
    bench.wait_ready("unpinned", 30)
    wait_until("the Pod to be back", lambda: bench.endpoints("unpinned") == {turned.pods["unpinned"]}, 30)


def test_a_candidate_that_cannot_prove_itself_never_gets_traffic(bench: Bench) -> None:
    for name in UNPROVABLE:
        bench.declare(name)
    stables = {name: bench.wait_ready(name, 150)["status"]["stableRevision"]["hash"] for name in UNPROVABLE}
    for name, (tag, _) in UNPROVABLE.items():
        bench.edit(name, model=tag)
    for name, (_, why) in UNPROVABLE.items():
        assert_kept_out(bench, name, stables[name], why)
    # Giving up on it is the user's right as well: the stable was never touched.
    for name in UNPROVABLE:
        bench.edit(name, model="laya:en")
    for name, stable in stables.items():
        bench.wait_ready(name, 60)
        assert bench.selected(name) == stable


def assert_kept_out(bench: Bench, name: str, stable: str, why: str) -> None:
    """Wait until a candidate's gate is closed for that reason, and look at what that means to everybody."""
    pod = wait_until(f"the gate of {name} to close with {why}", partial(unproved, bench, name, why), 90)
    assert gate(pod)["message"]
    assert condition(pod, "ContainersReady")["status"] == "True"
    assert condition(pod, "Ready")["status"] == "False"
    model = bench.model(name)
    assert (phase(model), reason(model, "ModelReady")) == ("Starting", "Starting")
    assert condition(model, "Ready")["status"] == "True"
    assert bench.selected(name) == stable
    assert bench.endpoints(name) == {each["metadata"]["name"] for each in bench.serving_pods(name, stable)}
    mismatches = 0 if why == "ProbeError" else 1
    wait_until("the mismatch to be told", lambda: bench.told(name, "ProbeMismatch") == mismatches, 30)


def unproved(bench: Bench, name: str, why: str) -> Object | None:
    """Return a candidate's Pod once its gate is closed for that reason."""
    candidate = bench.model(name)["status"].get("candidateRevision")
    pods = bench.serving_pods(name, candidate["hash"]) if candidate else []
    return next((pod for pod in pods if gate(pod).get("reason") == why), None)


def test_three_refused_looks_change_nothing_and_the_fourth_closes_the_gate(turned: Turned) -> None:
    bench, patient, refused = turned.bench, turned.pods["patient"], turned.pods["refused"]
    wait_until("three refused looks", lambda: turned.looks("patient", REFUSED_LOOK) == 3, FOUR_LOOKS, every=1)
    assert turned.gate("patient") == turned.gates["patient"]
    assert turned.gate("refused") == turned.gates["refused"]
    answered = turned.looks("patient", LOOK)
    bench.runtime(patient, {"unauthorized": None})
    wait_until("an answered look", lambda: turned.looks("patient", LOOK) > answered, 90, every=1)
    assert turned.gate("patient") == turned.gates["patient"]
    assert phase(bench.model("patient")) == "Ready"
    assert bench.endpoints("patient") == {patient}

    closed = turned.wait_closed("refused", "ProbeError", 90)
    assert "401" in closed["message"]
    assert turned.looks("refused", REFUSED_LOOK) == 4
    model = bench.wait("refused", "without a Pod", lambda dm: phase(dm) == "Degraded", 30)
    assert condition(model, "Ready")["status"] == "False"
    assert {reason(model, each) for each in ("Ready", "ModelReady", "Degraded")} == {"NoModelReadyPods"}
    wait_until("the Service to be empty", lambda: not bench.endpoints("refused"), 30)
    bench.runtime(refused, {"unauthorized": None})
    bench.wait_ready("refused", 60)
    wait_until("the Pod to be back", lambda: bench.endpoints("refused") == {refused}, 30)
    assert bench.told("refused", "ProbeMismatch") == 0

"""The readiness gate between what a runtime reports and who gets traffic, on the real cluster (spec section 6).

An open gate is looked at once a minute, and it takes four looks to close one that teaches nothing. So the models whose
looks are counted are made first, and everything else happens side by side between those looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import pytest

from tests.cluster.observing import Bench, fresh_namespace, gate, no_failed_request, reason, without_reconciler
from tests.cluster.side_by_side import SideBySide
from tools.environment import Environment
from tools.kubectl import wait_until
from tools.observer import Object, condition, phase

pytestmark = pytest.mark.cluster

side_by_side = SideBySide()

OTHER_THAN_ASKED_FOR = {
    "laya:en-wrong-digest": "DigestMismatch",
    "laya:en-on-gpu": "DeviceMismatch",
    "laya:en-wrong-device": "DeviceMismatch",
}
NOT_IN_MEMORY_FOR_GOOD = {"laya:en-unpinned": "NotPinned", "laya:en-no-load": "ProbeError"}
LOOK, REFUSED_LOOK = "GET /api/ps 200", "GET /api/ps 401"
ONE_LOOK, FOUR_LOOKS = 60 + 30, 4 * 60 + 30


@dataclass(frozen=True, slots=True)
class Turned:
    """Ready models, each with its Pod, and the gate as it was until some runtimes turned bad while nobody looked."""

    bench: Bench
    pods: dict[str, str]
    gates: dict[str, Object]

    def gate(self, name: str) -> Object:
        """Return the gate of a model's Pod."""
        return gate_of(self.bench, self.pods[name])

    def looks(self, name: str, answered: str) -> int:
        """Return how many looks a model's runtime has answered in that way."""
        return self.bench.runtime_requests(self.pods[name]).get(answered, 0)


@pytest.fixture(scope="module", autouse=True)
def turned(operator: Environment) -> Iterator[Turned]:
    names = ("unpinned", "forgetful", "patient", "refused")
    with fresh_namespace(operator) as bench:
        for name in names:
            bench.declare(name)
        first = {name: first_pod(bench, name) for name in names}
        pods = {name: pod["metadata"]["name"] for name, pod in first.items()}
        # A reconciler that has just been started looks at once, and knows of no earlier look.
        with without_reconciler(bench.kubectl):
            bench.load(pods["unpinned"], "laya:en", "1h")
            for name in ("patient", "refused"):
                bench.runtime(pods[name], {"unauthorized": True})
        yield Turned(bench, pods, {name: gate(pod) for name, pod in first.items()})


@pytest.fixture(scope="module", autouse=True)
def between_the_looks(turned: Turned, request: pytest.FixtureRequest, threads: Executor) -> None:
    """Begin what nobody has to wait for as long as looks are counted."""
    side_by_side.begin(request, turned.bench.environment, threads)


def first_pod(bench: Bench, name: str) -> Object:
    """Return a serving Pod of a model once that is Ready."""
    revision = bench.wait_ready(name, 120)["status"]["stableRevision"]["hash"]
    return bench.serving_pods(name, revision)[0]


def gate_of(bench: Bench, pod: str) -> Object:
    """Return the gate of a Pod that is there."""
    found = bench.kubectl.get("pod", pod, bench.namespace)
    assert found
    return gate(found)


def wait_closed(bench: Bench, pod: str, why: str) -> Object:
    """Wait until the next look has closed a Pod's gate for that reason; return it."""

    def look() -> Object | None:
        found = gate_of(bench, pod)
        return found if (found["status"], found["reason"]) == ("False", why) else None

    return wait_until(f"the gate of {pod} to close with {why}", look, ONE_LOOK)


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


def test_a_model_that_leaves_memory_leaves_the_service_until_it_is_back(turned: Turned) -> None:
    """Nobody asks meanwhile: a runtime loads what it is asked for."""
    bench, pod = turned.bench, turned.pods["forgetful"]
    wait_until("the endpoint", lambda: bench.endpoints("forgetful") == {pod}, 30)
    bench.unload(pod, "laya:en")
    wait_until("the gate to close", lambda: not bench.endpoints("forgetful"), ONE_LOOK)
    wait_until("the model to be loaded and proved again", lambda: bench.endpoints("forgetful") == {pod}, 60)
    bench.wait_ready("forgetful", 60)


def test_three_refused_looks_change_nothing_and_the_fourth_closes_the_gate(turned: Turned) -> None:
    bench, patient, refused = turned.bench, turned.pods["patient"], turned.pods["refused"]
    wait_until("three refused looks", lambda: turned.looks("patient", REFUSED_LOOK) == 3, FOUR_LOOKS, every=1)
    assert turned.gate("patient") == turned.gates["patient"]
    assert turned.gate("refused") == turned.gates["refused"]
    answered = turned.looks("patient", LOOK)
    bench.runtime(patient, {"unauthorized": None})
    wait_until("an answered look", lambda: turned.looks("patient", LOOK) > answered, ONE_LOOK, every=1)
    assert turned.gate("patient") == turned.gates["patient"]
    assert phase(bench.model("patient")) == "Ready"
    assert bench.endpoints("patient") == {patient}

    closed = wait_closed(bench, refused, "ProbeError")
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


@side_by_side
def test_a_candidate_that_is_not_what_was_asked_for_never_gets_traffic(bench: Bench) -> None:
    assert_never_get_traffic(bench, OTHER_THAN_ASKED_FOR)


@side_by_side
def test_a_candidate_without_a_place_is_given_up_at_its_deadline(bench: Bench) -> None:
    bench.declare("router", rollout={"timeouts": {"starting": "1m"}})
    stable = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    with no_failed_request(bench, "router"):
        bench.edit("router", resources={"requests": {"cpu": "64", "memory": "32Mi"}})
        rejected = bench.wait_rejected("router", 180)
    assert rejected["status"]["failedRevision"]["reason"] == "StartTimeout"
    assert bench.selected("router") == stable
    wait_until("its objects to go", lambda: len(bench.children("router")["Deployment"]) == 1, 60)


@side_by_side
def test_other_bytes_in_a_serving_pod_take_it_out_of_the_service(bench: Bench) -> None:
    bench.declare("router", replicas=2)
    pod = first_pod(bench, "router")["metadata"]["name"]
    with no_failed_request(bench, "router"):
        bench.runtime(pod, {"digest": "0" * 64})
        closed = wait_closed(bench, pod, "DigestMismatch")
        assert "000000000000" in closed["message"]
        model = bench.wait("router", "short of a Pod", lambda dm: phase(dm) == "Degraded", 30)
        assert model["status"]["replicas"] == {"current": 2, "desired": 2, "modelReady": 1}
        assert (condition(model, "Ready")["status"], reason(model, "Ready")) == ("True", "Ready")
        assert reason(model, "ModelReady") == reason(model, "Degraded") == "ReplicasNotModelReady"
        wait_until("the other Pod to be alone", lambda: len(bench.endpoints("router")) == 1, 30)
        assert pod not in bench.endpoints("router")
        wait_until("the mismatch to be told", lambda: bench.told("router", "ProbeMismatch") == 1, 30)
        bench.runtime(pod, {"digest": None})
        bench.wait_ready("router", 60)
        wait_until("both Pods to be back", lambda: len(bench.endpoints("router")) == 2, 30)


@side_by_side
def test_a_candidate_that_does_not_stay_in_memory_never_gets_traffic(bench: Bench) -> None:
    assert_never_get_traffic(bench, NOT_IN_MEMORY_FOR_GOOD)


def assert_never_get_traffic(bench: Bench, candidates: Mapping[str, str]) -> None:
    """Let one candidate after the other fail to prove itself, for the reason given with it, beside what serves."""
    bench.declare("router")
    stable = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    mismatches = 0
    with no_failed_request(bench, "router"):
        for tag, why in candidates.items():
            bench.edit("router", model=tag)
            mismatches += why != "ProbeError"
            assert_kept_out(bench, stable, why, mismatches)
            # Giving up on it is the user's right as well: the stable was never touched.
            bench.edit("router", model="laya:en")
            bench.wait_ready("router", 60)
            assert bench.selected("router") == stable


def assert_kept_out(bench: Bench, stable: str, why: str, mismatches: int) -> None:
    """Wait until the candidate's gate is closed for that reason, and look at what that means to everybody."""
    pod = wait_until(f"the candidate's gate to close with {why}", partial(unproved, bench, why), 90)
    assert gate(pod)["message"]
    assert condition(pod, "ContainersReady")["status"] == "True"
    assert condition(pod, "Ready")["status"] == "False"
    model = bench.model("router")
    assert (phase(model), reason(model, "ModelReady")) == ("Starting", "Starting")
    assert condition(model, "Ready")["status"] == "True"
    assert bench.selected("router") == stable
    assert bench.endpoints("router") == {each["metadata"]["name"] for each in bench.serving_pods("router", stable)}
    wait_until("the mismatch to be told", lambda: bench.told("router", "ProbeMismatch") == mismatches, 30)


def unproved(bench: Bench, why: str) -> Object | None:
    """Return the candidate's Pod once its gate is closed for that reason."""
    candidate = bench.model("router")["status"].get("candidateRevision")
    pods = bench.serving_pods("router", candidate["hash"]) if candidate else []
    return next((pod for pod in pods if gate(pod).get("reason") == why), None)

"""Every obstacle by the object that tells it: Pods, claims, Jobs and Deployments as the API server shows them."""

from __future__ import annotations

from typing import Any

import pytest

from api.conditions import Reason
from api.keys import NAME_LABEL, PREFETCH_REVISION_LABEL, REVISION_LABEL
from reconciler.controller.observation import Children
from reconciler.controller.obstacles import TELLING, Notice, obstructed, silent_objects
from reconciler.controller.watched import pod_signature
from reconciler.rollout import Obstacle, RevisionFacts
from reconciler.rollout.obstacle import LONGEST_MESSAGE

Object = dict[str, Any]
HASH = "0123456789abcdef"


def child(kind: str, name: str, owner: str, labels: Object | None = None, **more: Any) -> Object:
    """An object with a controlling owner; its UID is its kind."""
    return {
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": kind,
            "labels": {NAME_LABEL: "router", **(labels or {})},
            "ownerReferences": [{"uid": owner, "controller": True}],
        },
        **more,
    }


JOB = child("Job", f"router-pf-{HASH}", "owner")
DEPLOYMENT = child("Deployment", f"router-{HASH}", "owner")
REPLICA_SET = child("ReplicaSet", f"router-{HASH}-1", "Deployment")
PENDING = child("PersistentVolumeClaim", f"router-store-{HASH}", "owner", status={"phase": "Pending"})


def prefetch_pod(status: Object, name: str = "pf-1") -> Object:
    return child("Pod", name, "Job", {PREFETCH_REVISION_LABEL: HASH}, status=status)


def serving_pod(status: Object, name: str = "serving-1") -> Object:
    return child("Pod", name, "ReplicaSet", {REVISION_LABEL: HASH}, status=status)


def waiting(reason: str, message: str = "", kind: str = "containerStatuses", **more: Any) -> Object:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", kind: [{"name": "main", "image": "x:1", "state": state, **more}]}


def unscheduled(message: str, reason: str = "Unschedulable") -> Object:
    return {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}],
    }


def ended(reason: str, code: int = 137) -> Object:
    return {"terminated": {"reason": reason, "exitCode": code}}


def read(*pods: Object, notices: dict[str, Notice] | None = None, **more: Any) -> RevisionFacts:
    children = Children(
        jobs=more.get("jobs", (JOB,)),
        deployments=more.get("deployments", (DEPLOYMENT,)),
        replica_sets=(REPLICA_SET,),
        claims=more.get("claims", ()),
        pods=pods,
    )
    return obstructed(RevisionFacts(), children, "router", "owner", HASH, notices or {})


POD_OBSTACLES = [
    (unscheduled("0/1 nodes are available: 1 Insufficient memory."), Reason.UNSCHEDULABLE, "Insufficient memory"),
    (unscheduled("", "SchedulingGated"), Reason.SCHEDULING_GATED, "SchedulingGated"),
    (waiting("ErrImagePull", "x:1: not found"), Reason.IMAGE_PULL_BACK_OFF, "image x:1: x:1: not found"),
    (waiting("ImagePullBackOff", 'Back-off pulling image "x:1"'), Reason.IMAGE_PULL_BACK_OFF, "ImagePullBackOff"),
    (waiting("ErrImageNeverPull"), Reason.IMAGE_PULL_BACK_OFF, "ErrImageNeverPull"),
    (waiting("InvalidImageName"), Reason.INVALID_IMAGE_NAME, "x:1"),
    (
        waiting("CreateContainerConfigError", 'secret "hf" not found'),
        Reason.CREATE_CONTAINER_CONFIG_ERROR,
        'secret "hf" not found',
    ),
    (waiting("CreateContainerError", "no such device"), Reason.CREATE_CONTAINER_ERROR, "no such device"),
    (waiting("RunContainerError", "no such file"), Reason.RUN_CONTAINER_ERROR, "no such file"),
    (waiting("ErrImagePull", "gone", "initContainerStatuses"), Reason.IMAGE_PULL_BACK_OFF, "gone"),
    (waiting("CrashLoopBackOff", lastState=ended("Error", 2)), Reason.CRASH_LOOP_BACK_OFF, "exit code 2"),
    (waiting("CrashLoopBackOff", lastState=ended("OOMKilled")), Reason.OOM_KILLED, "memory limit"),
    ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, Reason.EVICTED, "low on memory"),
    (
        {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no GPU"},
        Reason.UNEXPECTED_ADMISSION_ERROR,
        "no GPU",
    ),
    (
        {"phase": "Failed", "containerStatuses": [{"name": "main", "state": ended("OOMKilled")}]},
        Reason.OOM_KILLED,
        "memory limit",
    ),
]


@pytest.mark.parametrize(
    ("role", "status", "reason", "words"),
    [
        *(("prefetch", *each) for each in POD_OBSTACLES),
        # In the place of a serving Pod that ended its ReplicaSet makes another, which counts.
        *(("serving", *each) for each in POD_OBSTACLES if each[0]["phase"] != "Failed"),
    ],
)
def test_a_pod_names_what_it_waits_for(role: str, status: Object, reason: Reason, words: str) -> None:
    facts = read(prefetch_pod(status) if role == "prefetch" else serving_pod(status))

    found, other = facts.prefetch.obstacle, facts.serving.obstacle
    if role == "serving":
        found, other = other, found
    assert found is not None
    assert other is None
    assert found.reason is reason
    assert words in found.words
    assert found.remedy
    assert found.message == f"Pod {found.name}: {found.words}; {found.remedy}"


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Pending"},
        {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]},
        waiting("ContainerCreating"),
        {"phase": "Failed", "containerStatuses": [{"name": "main", "state": ended("Error", 1)}]},
        {"phase": "Succeeded"},
    ],
)
def test_what_is_on_its_way_is_no_obstacle(status: Object) -> None:
    facts = read(prefetch_pod(status), serving_pod(status))

    assert facts.prefetch.obstacle is None
    assert facts.serving.obstacle is None


@pytest.mark.parametrize("code", [0, 4])
def test_a_container_that_runs_on_after_the_prefetch_is_named(code: int) -> None:
    states = [{"name": "prefetch", "state": ended("", code)}, {"name": "istio-proxy", "state": {"running": {}}}]
    found = read(prefetch_pod({"phase": "Running", "containerStatuses": states})).prefetch.obstacle

    assert found is not None
    assert found.reason is Reason.SIDECAR_RUNNING
    assert f"prefetch has ended with {code}, but istio-proxy runs on" in found.message


def test_the_live_pod_counts_and_not_the_one_that_failed_before_it() -> None:
    evicted = prefetch_pod({"phase": "Failed", "reason": "Evicted"}, "pf-0")
    running = prefetch_pod({"phase": "Running"}, "pf-1")

    assert read(evicted, running).prefetch.obstacle is None
    assert read(evicted).prefetch.obstacle is not None


def test_a_proved_pod_has_no_obstacle() -> None:
    opened = [{"type": kind, "status": "True"} for kind in ("decisionmodel.io/model-ready", "Ready")]
    status = {**waiting("CrashLoopBackOff", lastState=ended("OOMKilled")), "conditions": opened}

    assert read(serving_pod(status)).serving.obstacle is None


@pytest.mark.parametrize(
    "refused",
    [
        "failed quota: compute: must specify limits.cpu for: ollaya",
        "minimum memory usage per Container is 1Gi, but request is 512Mi",
        'violates PodSecurity "restricted:latest": runAsNonRoot != true',
        "unable to validate against any security context constraint",
    ],
)
def test_refused_pods_are_told_from_deployment_and_job_alike(refused: str) -> None:
    message = f'pods "router-x" is forbidden: {refused}'
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    deployment = {**DEPLOYMENT, "status": {"conditions": [failure]}}
    notice = Notice(reason="FailedCreate", message=f"Error creating: {message}")
    facts = read(deployments=(deployment,), notices={"Job": notice})

    for found in (facts.prefetch.obstacle, facts.serving.obstacle):
        assert found is not None
        assert found.reason is Reason.FAILED_CREATE
        assert found.words == refused


@pytest.mark.parametrize(("kind", "event"), [(kind, event) for kind, events in TELLING.items() for event in events])
def test_what_only_events_tell_is_told(kind: str, event: str) -> None:
    pods = (prefetch_pod(waiting("ContainerCreating")),) if kind == "Pod" else ()
    claims = (PENDING,) if kind == "PersistentVolumeClaim" else ()
    found = read(*pods, claims=claims, notices={kind: Notice(event, "why not")}).prefetch.obstacle

    assert found is not None
    assert (found.reason, found.kind, found.words) == (TELLING[kind][event], kind, "why not")


def test_an_unbound_claim_is_the_cause_of_a_pod_that_waits_for_it() -> None:
    pod = prefetch_pod(unscheduled("pod has unbound immediate PersistentVolumeClaims"))
    notices = {"PersistentVolumeClaim": Notice("ProvisioningFailed", 'storageclass "fast-ssd" not found')}

    found = read(pod, claims=(PENDING,), notices=notices).prefetch.obstacle
    assert found is not None
    assert found.reason is Reason.PROVISIONING_FAILED
    without = read(pod, claims=(PENDING,)).prefetch.obstacle
    assert without is not None
    assert without.reason is Reason.UNSCHEDULABLE


def test_a_job_without_a_pod_is_an_obstacle_even_if_no_event_says_why() -> None:
    found = read(notices={"Job": Notice()}).prefetch.obstacle

    assert found is not None
    assert found.reason is Reason.FAILED_CREATE
    assert read().prefetch.obstacle is None


@pytest.mark.parametrize("ending", ["Complete", "Failed"])
def test_a_job_that_has_ended_has_no_obstacle(ending: str) -> None:
    job = {**JOB, "status": {"conditions": [{"type": ending, "status": "True"}]}}
    assert read(jobs=(job,), notices={"Job": Notice()}).prefetch.obstacle is None


def test_events_are_asked_only_about_what_is_silent() -> None:
    bound = {**PENDING, "status": {"phase": "Bound"}}
    slow, running = serving_pod(waiting("ContainerCreating")), prefetch_pod({"phase": "Running"})

    assert [*silent_objects(Children(jobs=(JOB,), claims=(PENDING,), pods=(slow,)), "owner")] == [JOB, PENDING, slow]
    assert [*silent_objects(Children(jobs=(JOB,), claims=(bound,), pods=(running,)), "owner")] == []
    assert [*silent_objects(Children(jobs=(JOB,)), "another")] == []


def test_every_obstacle_of_a_pod_wakes_a_pass() -> None:
    signatures = [pod_signature(serving_pod(status)) for status, _, _ in POD_OBSTACLES]
    healthy = pod_signature(serving_pod({"phase": "Running"}))

    assert healthy not in signatures
    assert pod_signature(serving_pod(unscheduled("1 of 3"))) == pod_signature(serving_pod(unscheduled("2 of 3")))


@pytest.mark.parametrize(("name", "words"), [("n" * 253, "w" * 400), ("n", "w" * 400), ("n" * 253, "w")])
def test_a_message_is_bounded_and_keeps_what_to_do(name: str, words: str) -> None:
    obstacle = Obstacle(reason=Reason.UNSCHEDULABLE, kind="Pod", name=name, words=words, remedy="make room")

    assert len(obstacle.message) <= LONGEST_MESSAGE
    assert obstacle.message.endswith("; make room")

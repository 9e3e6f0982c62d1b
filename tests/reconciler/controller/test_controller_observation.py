"""What counts in a cluster: ownership along the whole chain, and the states of stores, Jobs and Deployments."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from api.conditions import Reason
from reconciler.controller.observation import Children, Past, revision_facts, selected_revision, serving_pods
from reconciler.rollout import PrefetchState, StoreState

REVISION = "0123456789abcdef"
Object = dict[str, Any]


def child(kind: str, name: str, owner: str | None, *, labels: dict[str, str] | None = None, **fields: Any) -> Object:
    references = [] if owner is None else [{"uid": owner, "controller": True}]
    metadata = {"name": name, "uid": f"{kind}-uid", "labels": labels or {}, "ownerReferences": references}
    return {"kind": kind, "metadata": metadata, "spec": {}} | fields


def condition(type_: str, status: str = "True", reason: str = "") -> Object:
    return {"type": type_, "status": status, "reason": reason}


def pod(owner: str | None = "ReplicaSet-uid", revision: str = REVISION, **status: Any) -> Object:
    return child("Pod", "p", owner, labels={"decisionmodel.io/revision": revision}, status=status)


def serving(*pods: Object, deployment_owner: str = "u", **deployment: Any) -> Children:
    return Children(
        deployments=(child("Deployment", f"router-{REVISION}", deployment_owner, **deployment),),
        replica_sets=(child("ReplicaSet", "rs", "Deployment-uid"),),
        pods=pods,
    )


def counted(children: Children) -> int:
    return len(list(serving_pods(children, "u", REVISION)))


def test_a_pod_counts_only_with_the_whole_chain_of_owners_behind_it() -> None:
    assert counted(serving(pod())) == 1
    assert counted(serving(pod(owner=None))) == 0
    assert counted(serving(pod(owner="another"))) == 0
    assert counted(serving(pod(), deployment_owner="another")) == 0
    assert counted(serving(pod(revision="f" * 16))) == 0
    going = pod()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert counted(serving(going)) == 0


GATE = "decisionmodel.io/model-ready"
CRASHED = [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_holds_nothing_and_says_nothing(phase: str) -> None:
    said = [condition(GATE, "False", "DigestMismatch"), condition("Ready")]
    children = serving(pod(phase=phase, conditions=said, containerStatuses=CRASHED))
    assert counted(children) == 0
    facts = revision_facts(children, "router", "u", REVISION).serving
    assert (facts.pods, facts.model_ready, facts.mismatched_gates, facts.crash_looping) == (0, 0, (), False)
    proved = serving(pod(phase=phase, conditions=[condition(GATE), condition("Ready")]))
    assert revision_facts(proved, "router", "u", REVISION).serving.model_ready == 0


def test_a_pod_that_terminates_still_holds_its_memory_and_its_volume() -> None:
    going = pod(phase="Running")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert revision_facts(serving(going), "router", "u", REVISION).serving.pods == 1


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([condition(GATE), condition("Ready")], 1),
        ([condition(GATE)], 0),
        ([condition("Ready")], 0),
        ([condition(GATE, "False"), condition("Ready")], 0),
        ([], 0),
    ],
)
def test_a_pod_is_ready_when_gate_and_kubelet_say_so(conditions: list[Object], ready: int) -> None:
    facts = revision_facts(serving(pod(conditions=conditions)), "router", "u", REVISION)
    assert facts.serving.model_ready == ready


@pytest.mark.parametrize(
    ("reason", "mismatches"),
    [
        ("DigestMismatch", (Reason.DIGEST_MISMATCH,)),
        ("DeviceMismatch", (Reason.DEVICE_MISMATCH,)),
        ("NotPinned", ()),
        ("ProbeError", ()),
    ],
)
def test_only_wrong_bytes_and_devices_are_proof_against_a_revision(reason: str, mismatches: tuple[Reason, ...]) -> None:
    children = serving(pod(conditions=[condition(GATE, "False", reason)]))
    assert revision_facts(children, "router", "u", REVISION).serving.mismatched_gates == mismatches


@pytest.mark.parametrize(
    ("generation", "observed", "progressing", "rolling", "exceeded"),
    [
        (2, 1, condition("Progressing", reason="NewReplicaSetAvailable"), True, False),
        (2, 2, condition("Progressing", reason="NewReplicaSetAvailable"), False, False),
        (2, 2, condition("Progressing", reason="ReplicaSetUpdated"), True, False),
        (2, 2, condition("Progressing", "False", "ProgressDeadlineExceeded"), False, True),
    ],
)
def test_a_deployment_on_its_way(
    generation: int, observed: int, progressing: Object, rolling: bool, exceeded: bool
) -> None:
    children = serving(status={"observedGeneration": observed, "conditions": [progressing]})
    children.deployments[0]["metadata"]["generation"] = generation
    facts = revision_facts(children, "router", "u", REVISION).serving
    assert (facts.rolling, facts.progress_deadline_exceeded) == (rolling, exceeded)


def test_a_crash_loop_is_seen() -> None:
    waiting = [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
    assert revision_facts(serving(pod(containerStatuses=waiting)), "router", "u", REVISION).serving.crash_looping


def job(*conditions: Object) -> Children:
    return Children(jobs=(child("Job", f"router-pf-{REVISION}", "u", status={"conditions": list(conditions)}),))


def prefetch_pod(created: str, exit_code: int, message: str, owner: str = "Job-uid") -> Object:
    terminated = {"exitCode": exit_code, "message": message}
    status = {"phase": "Failed", "containerStatuses": [{"state": {"terminated": terminated}}]}
    made = child("Pod", f"p-{created}", owner, labels={"decisionmodel.io/prefetch-revision": REVISION}, status=status)
    made["metadata"]["creationTimestamp"] = created
    return made


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ((), PrefetchState.RUNNING),
        ((condition("Complete"),), PrefetchState.COMPLETE),
        ((condition("Failed", reason="BackoffLimitExceeded"),), PrefetchState.FAILED),
        ((condition("Failed", reason="PodFailurePolicy"),), PrefetchState.FAILED),
        ((condition("Failed", reason="DeadlineExceeded"),), PrefetchState.RUNNING),
    ],
)
def test_how_far_a_job_has_come(conditions: tuple[Object, ...], state: PrefetchState) -> None:
    assert revision_facts(job(*conditions), "router", "u", REVISION).prefetch.state is state


def test_a_failure_is_read_from_the_newest_pod_of_the_job_itself() -> None:
    failed = job(condition("Failed", reason="PodFailurePolicy"))
    pods = (
        prefetch_pod("2026-01-01T00:00:01Z", 1, ""),
        prefetch_pod("2026-01-01T00:00:03Z", 5, "reason: UpstreamTagMoved\ndetail: now abc"),
        prefetch_pod("2026-01-01T00:00:09Z", 3, "reason: ModelNotFound", owner="another"),
    )
    facts = revision_facts(Children(jobs=failed.jobs, pods=pods), "router", "u", REVISION).prefetch
    assert (facts.failure, facts.detail, facts.permanent) == ("UpstreamTagMoved", "now abc", True)


def test_a_failure_is_not_read_from_a_pod_that_was_evicted() -> None:
    failed = job(condition("Failed", reason="BackoffLimitExceeded"))
    evicted = prefetch_pod("2026-01-01T00:00:03Z", 137, "reason: ModelNotFound")
    evicted["status"]["conditions"] = [condition("DisruptionTarget", reason="TerminationByKubelet")]
    own = prefetch_pod("2026-01-01T00:00:01Z", 1, "reason: Transient\ndetail: connection reset")
    facts = revision_facts(Children(jobs=failed.jobs, pods=(evicted, own)), "router", "u", REVISION).prefetch
    assert (facts.failure, facts.detail, facts.permanent) == ("Transient", "connection reset", False)
    alone = revision_facts(Children(jobs=failed.jobs, pods=(evicted,)), "router", "u", REVISION).prefetch
    assert (alone.failure, alone.permanent) == ("Transient", False)


def test_a_failure_that_left_no_pod_may_pass() -> None:
    facts = revision_facts(job(condition("Failed", reason="BackoffLimitExceeded")), "router", "u", REVISION).prefetch
    assert (facts.failure, facts.permanent) == ("Transient", False)


def test_stores_and_services_of_others_do_not_exist_for_us() -> None:
    name = f"router-store-{REVISION}"
    claim = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    mine = child("PersistentVolumeClaim", name, "u", spec=claim)
    theirs = child("PersistentVolumeClaim", name, "another", spec=claim)
    assert revision_facts(Children(claims=(mine,)), "router", "u", REVISION).store is StoreState.PRESENT
    assert revision_facts(Children(claims=(theirs,)), "router", "u", REVISION).store is StoreState.ABSENT
    mine["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert revision_facts(Children(claims=(mine,)), "router", "u", REVISION).store is StoreState.TERMINATING

    service = child("Service", "router", "u", spec={"selector": {"decisionmodel.io/revision": REVISION}})
    assert selected_revision(Children(services=(service,)), "router", "u") == REVISION
    assert selected_revision(Children(services=(service,)), "router", "another") is None
    assert selected_revision(Children(), "router", "u") is None


PROMOTED = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
COMPLETE = condition("Complete")


def stored(created: str, *conditions: Object, prefetched: str = "", **metadata: Any) -> Children:
    """A claim, and a Job from `prefetched` if there is one."""
    spec = {"resources": {"requests": {"storage": "1Gi"}}}
    claim = child("PersistentVolumeClaim", f"router-store-{REVISION}", "u", spec=spec)
    claim["metadata"] |= {"creationTimestamp": created, **metadata}
    if not prefetched:
        return Children(claims=(claim,))
    prefetch = child("Job", f"router-pf-{REVISION}", "u", status={"conditions": list(conditions)})
    prefetch["metadata"]["creationTimestamp"] = prefetched
    return Children(claims=(claim,), jobs=(prefetch,))


@pytest.mark.parametrize(
    ("children", "state"),
    [
        (stored("2026-01-01T00:00:00Z"), StoreState.PRESENT),
        (stored("2026-01-01T00:01:30Z"), StoreState.RECOVERING),
        (stored("2026-01-01T00:01:30Z", prefetched="2026-01-01T00:02:00Z"), StoreState.RECOVERING),
        (stored("2026-01-01T00:01:30Z", COMPLETE, prefetched="2026-01-01T00:02:00Z"), StoreState.PRESENT),
        (stored("2026-01-01T00:02:30Z", COMPLETE, prefetched="2026-01-01T00:02:00Z"), StoreState.RECOVERING),
        (stored("2026-01-01T00:01:30Z", deletionTimestamp="2026-01-01T00:03:00Z"), StoreState.TERMINATING),
    ],
)
def test_a_claim_younger_than_the_promotion_of_what_it_serves_is_not_known_to_be_filled(
    children: Children, state: StoreState
) -> None:
    assert revision_facts(children, "router", "u", REVISION, Past(proved_before=PROMOTED)).store is state
    if state is StoreState.RECOVERING:
        assert revision_facts(children, "router", "u", REVISION).store is StoreState.PRESENT


OPEN, CLOSED = condition(GATE), condition(GATE, "False", "ProbeError")
RUNNING = condition("ContainersReady")


@pytest.mark.parametrize(
    ("conditions", "away"),
    [
        ([OPEN, RUNNING, condition("Ready")], 0),
        ([], 1),
        ([RUNNING], 1),
        ([condition("PodScheduled", "False", "Unschedulable")], 1),
        ([CLOSED, RUNNING], 0),
        ([OPEN, condition("ContainersReady", "False")], 0),
        ([OPEN, RUNNING, condition("Ready", "False")], 1),
        ([CLOSED, RUNNING, condition("DisruptionTarget")], 1),
    ],
    ids=["ready", "starts", "is loading", "no node", "lost its proof", "crashed", "node unheard of", "being evicted"],
)
def test_which_pods_are_away_through_no_fault_of_the_revision(conditions: list[Object], away: int) -> None:
    facts = revision_facts(serving(pod(conditions=conditions), spec={"replicas": 1}), "router", "u", REVISION)
    assert facts.serving.away == away


def test_pods_that_are_gone_are_away() -> None:
    evicted = pod(phase="Failed", conditions=[OPEN])
    going = pod(conditions=[OPEN, RUNNING, condition("Ready")])
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    facts = revision_facts(serving(evicted, going, spec={"replicas": 3}), "router", "u", REVISION)
    assert (facts.serving.away, facts.serving.model_ready) == (3, 0)


def test_what_holds_a_deployment_up_from_outside() -> None:
    waiting = pod(conditions=[condition("PodScheduled", "False", "Unschedulable")])
    refused = {"conditions": [condition("ReplicaFailure", reason="FailedCreate")]}
    assert revision_facts(serving(waiting), "router", "u", REVISION).serving.held_up
    assert revision_facts(serving(status=refused), "router", "u", REVISION).serving.held_up
    assert not revision_facts(serving(pod()), "router", "u", REVISION).serving.held_up

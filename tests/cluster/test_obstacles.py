"""What keeps Pods and volumes from coming about on a real cluster is named within seconds, where people look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.observing import SMALL, Bench, no_failed_request, reason
from tests.cluster.side_by_side import SideBySide
from tools.kubectl import wait_until
from tools.observer import Object, condition, phase

pytestmark = pytest.mark.cluster

side_by_side = SideBySide()

SOON = 10.0
"""Seconds from an obstacle's appearance to the column."""


def wait_told(bench: Bench, name: str, appears: Callable[[], object], expected: str) -> Object:
    """Wait until the cluster shows an obstacle, and then no longer than that for the DecisionModel to show it."""
    wait_until(f"what obstructs {name} to be there", appears, 60)
    return bench.wait(name, expected, lambda dm: reason(dm, "Ready") == expected, SOON)


def is_in_column(bench: Bench, name: str, expected: str) -> bool:
    return expected in bench.kubectl.run("get", "dm", name, "-n", bench.namespace).split()


def has_waiting(bench: Bench, *reasons: str) -> Callable[[], bool]:
    def look() -> bool:
        statuses = (pod["status"].get("containerStatuses", ()) for pod in bench.kubectl.list("pods", bench.namespace))
        return any(each["state"].get("waiting", {}).get("reason") in reasons for found in statuses for each in found)

    return look


def has_event(bench: Bench, about: str, event: str) -> Callable[[], bool]:
    def look() -> bool:
        found = bench.kubectl.list("events.events.k8s.io", bench.namespace)
        return any((each["regarding"]["kind"], each["reason"]) == (about, event) for each in found)

    return look


def limit(bench: Bench, hard: dict[str, str]) -> None:
    quota: dict[str, Any] = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": hard}}
    bench.kubectl.apply({**quota, "metadata": {"name": "compute", "namespace": bench.namespace}})


@side_by_side
def test_an_image_that_cannot_be_pulled_is_named(bench: Bench) -> None:
    bench.declare("no-image", runtimeVersion="0.10.0")
    model = wait_told(bench, "no-image", has_waiting(bench, "ErrImagePull", "ImagePullBackOff"), "ImagePullBackOff")

    assert reason(model, "Cached") == "ImagePullBackOff"
    assert "image ghcr.io/ollaya-dev/ollaya" in condition(model, "Cached")["message"]
    assert is_in_column(bench, "no-image", "ImagePullBackOff")


@side_by_side
def test_a_storage_class_that_does_not_exist_is_named_until_the_end(bench: Bench) -> None:
    short = {"timeouts": {"caching": "1m"}}
    bench.declare("no-class", cache={"size": "64Mi", "storageClassName": "fast-ssd"}, rollout=short)
    model = wait_told(
        bench, "no-class", has_event(bench, "PersistentVolumeClaim", "ProvisioningFailed"), "ProvisioningFailed"
    )
    words = '"fast-ssd" not found'
    assert words in condition(model, "Cached")["message"]
    assert is_in_column(bench, "no-class", "ProvisioningFailed")

    failed = bench.wait("no-class", "Failed", lambda dm: phase(dm) == "Failed")["status"]["failedRevision"]
    assert failed["reason"] == "CacheTimeout"
    assert words in failed["message"]


@side_by_side
def test_a_node_without_room_is_named(bench: Bench) -> None:
    bench.declare("no-room", resources={"requests": {"cpu": "20m", "memory": "4Ti"}})

    def is_unschedulable() -> bool:
        found = bench.kubectl.list("pods", bench.namespace)
        return any(condition(pod, "PodScheduled").get("reason") == "Unschedulable" for pod in found)

    model = wait_told(bench, "no-room", is_unschedulable, "Unschedulable")
    assert "Insufficient memory" in condition(model, "ModelReady")["message"]
    assert is_in_column(bench, "no-room", "Unschedulable")


@side_by_side
def test_a_quota_that_refuses_the_jobs_pod_is_named(bench: Bench) -> None:
    limit(bench, {"limits.cpu": "4"})
    bench.declare("refused", resources={**SMALL, "limits": {"cpu": "500m", "memory": "512Mi"}})
    model = wait_told(bench, "refused", has_event(bench, "Job", "FailedCreate"), "FailedCreate")

    assert "failed quota: compute: must specify limits.cpu for: prefetch" in condition(model, "Cached")["message"]
    assert is_in_column(bench, "refused", "FailedCreate")


@side_by_side
def test_a_quota_without_room_for_a_candidate_is_named_beside_what_serves(bench: Bench) -> None:
    bench.declare("router")
    stable = bench.wait_ready("router")["status"]["stableRevision"]["hash"]
    with no_failed_request(bench, "router"):
        # The prefetch fits, as long as its Pod runs; the larger candidate does not.
        limit(bench, {"requests.memory": "512Mi"})
        bench.edit("router", model="laya:en-better", resources={"requests": {"memory": "500Mi"}})

        def is_refused() -> bool:
            found = bench.kubectl.list("deployments", bench.namespace)
            return any(condition(each, "ReplicaFailure").get("status") == "True" for each in found)

        model = wait_told(bench, "router", is_refused, "FailedCreate")
        assert condition(model, "Ready")["status"] == "True"
        assert "exceeded quota: compute" in condition(model, "ModelReady")["message"]
        assert bench.selected("router") == stable

"""Obstacles through the whole reconciler: what the cluster says reaches the conditions within seconds."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.controller.notices import PATIENCE_SECONDS, REREAD_SECONDS
from tests.fakes.apiserver import Request
from tests.reconciler.controller.bed import Bed, Object

pytestmark = pytest.mark.anyio

QUOTA = "failed quota: compute: must specify limits.cpu for: prefetch"
NO_ROOM = "0/1 nodes are available: 1 Insufficient memory."


def pull_error(image: str) -> Object:
    waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}": ErrImagePull: not found'}
    return {"phase": "Pending", "containerStatuses": [{"name": "c", "image": image, "state": {"waiting": waiting}}]}


def unscheduled(message: str) -> Object:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


def event_reads(bed: Bed) -> list[Request]:
    return [each for each in bed.server.requests if each.path.endswith("/events") and each.method == "GET"]


def is_prefetch(pod: Object) -> bool:
    return "readinessGates" not in pod["spec"]


async def test_a_pod_whose_image_cannot_be_pulled_is_told_at_once_and_until_it_can(bed: Bed) -> None:
    bed.kubelet.obstruct = lambda pod: pull_error("x:1") if is_prefetch(pod) else None
    bed.declare()
    await bed.settle()

    for type_ in ("Cached", "Ready"):
        status, reason, message = bed.condition(type_)
        assert (status, reason) == ("False", "ImagePullBackOff")
        assert "image x:1: not found" in message
    assert not event_reads(bed)

    bed.kubelet.obstruct = lambda _: None
    await bed.kubelet.sync()
    await bed.settle()
    assert bed.status.phase == "Ready"


async def test_serving_pods_without_room_are_told_and_stay_told_when_the_rollout_ends(bed: Bed) -> None:
    bed.kubelet.obstruct = lambda pod: None if is_prefetch(pod) else unscheduled(NO_ROOM)
    bed.declare(rollout={"timeouts": {"starting": "1m"}})
    await bed.settle()
    assert bed.condition("ModelReady")[1] == bed.condition("Ready")[1] == "Unschedulable"

    await bed.advance(61)
    assert bed.status.phase == "Failed"
    failed = bed.status.failed_revision
    assert failed is not None
    assert failed.reason == "StartTimeout"
    assert "1 Insufficient memory" in failed.message


async def test_a_job_whose_pods_are_refused_is_explained_by_its_events_which_are_read_once(bed: Bed) -> None:
    bed.kubelet.refuse = lambda owner: QUOTA if owner["kind"] == "Job" else None
    bed.declare()
    await bed.settle()
    assert bed.condition("Cached")[1] == "Caching"
    assert not event_reads(bed)

    assert await bed.next_pass() <= PATIENCE_SECONDS
    assert bed.condition("Cached")[1] == bed.condition("Ready")[1] == "FailedCreate"
    assert QUOTA in bed.condition("Cached")[2]
    assert len(event_reads(bed)) == 1
    writes = len(bed.status_writes)

    await bed.advance(REREAD_SECONDS - 1)
    assert len(event_reads(bed)) == 1
    await bed.advance(2)
    assert len(event_reads(bed)) == 2
    assert len(bed.status_writes) == writes

    bed.kubelet.refuse = lambda _: None
    await bed.kubelet.sync()
    await bed.settle()
    assert bed.status.phase == "Ready"


async def test_a_candidate_whose_pods_are_refused_is_told_beside_what_serves(bed: Bed) -> None:
    old = await bed.rolled_out()
    refused = "exceeded quota: compute, requested: limits.memory=256Mi, used: limits.memory=256Mi"
    bed.kubelet.refuse = lambda owner: refused if owner["kind"] == "ReplicaSet" and old not in str(owner) else None
    bed.declare(model="laya:en-better")
    await bed.settle()

    assert bed.condition("ModelReady")[1] == "FailedCreate"
    status, reason, message = bed.condition("Ready")
    assert (status, reason) == ("True", "FailedCreate")
    assert refused in message
    assert bed.selected == old


async def test_a_claim_without_a_storage_class_is_the_obstacle(bed: Bed) -> None:
    bed.kubelet.provision = lambda _: 'storageclass.storage.k8s.io "fast-ssd" not found'
    bed.kubelet.obstruct = lambda _: unscheduled("pod has unbound immediate PersistentVolumeClaims")
    bed.declare()
    await bed.settle()
    await bed.advance(PATIENCE_SECONDS)

    assert bed.condition("Cached")[1] == "ProvisioningFailed"
    assert '"fast-ssd" not found' in bed.condition("Ready")[2]


async def test_an_injected_container_that_keeps_a_failed_job_running_is_named(bed: Bed) -> None:
    bed.kubelet.inject, bed.kubelet.inject_exit = "istio-proxy", 1
    bed.declare()
    await bed.settle()

    assert bed.condition("Cached")[1] == bed.condition("Ready")[1] == "SidecarRunning"
    assert "istio-proxy runs on" in bed.condition("Cached")[2]


@pytest.mark.parametrize("status", [403, 500])
async def test_events_that_cannot_be_read_hold_up_nothing(bed: Bed, status: int) -> None:
    bed.server.fail(status, matches=lambda request: request.path.endswith("/events") and request.method == "GET")
    bed.kubelet.refuse = lambda owner: QUOTA if owner["kind"] == "Job" else None
    bed.declare()
    await bed.settle()
    await bed.advance(PATIENCE_SECONDS)
    assert bed.status.phase == "Caching"

    bed.kubelet.refuse = lambda _: None
    await bed.kubelet.sync()
    await bed.settle()
    assert bed.status.phase == "Ready"


async def test_a_steady_model_reads_no_events(bed: Bed) -> None:
    await bed.rolled_out()
    before: list[Any] = event_reads(bed)
    await bed.advance(301)
    await bed.advance(61)

    assert event_reads(bed) == before == []

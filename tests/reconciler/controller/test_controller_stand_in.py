"""Evictions, missing room and scaling within the window after a promotion, through the whole reconciler."""

from __future__ import annotations

import pytest

from reconciler.controller.watched import PODS
from tests.reconciler.controller.bed import Bed, Object

pytestmark = pytest.mark.anyio


async def promoted(bed: Bed) -> tuple[str, str]:
    """Roll two models out, one after the other; return their revisions."""
    first = await bed.rolled_out()
    return first, await bed.rolled_out(model="laya:en-better")


def pod_of(bed: Bed, revision: str) -> Object:
    return next(pod for pod in bed.pods if pod["metadata"]["labels"]["decisionmodel.io/revision"] == revision)


async def test_a_pod_that_finds_no_node_again_leaves_traffic_with_the_old_revision(bed: Bed) -> None:
    first, second = await promoted(bed)
    bed.kubelet.has_room = False
    bed.kubelet.evict(pod_of(bed, second))
    await bed.settle()
    assert bed.selected == first
    assert bed.condition("Stabilizing")[:2] == ("True", "ServedByPrevious")
    assert bed.condition("Ready")[0] == "True"
    assert first in bed.condition("Ready")[2]

    for _ in range(40):
        await bed.advance(10)
    assert bed.selected == first
    assert bed.status.stable_revision is not None
    assert bed.status.stable_revision.hash == second
    assert bed.status.failed_revision is None
    assert "RolledBackAfterPromotion" not in bed.events
    assert bed.events.count("ServedByPrevious") == 1

    bed.kubelet.has_room = True
    for pod in bed.pods:
        if pod["status"]["phase"] == "Pending":
            bed.remove(PODS, pod["metadata"]["name"])
    await bed.settle()
    assert bed.selected == second
    await bed.advance(61)
    assert bed.status.phase == "Ready"
    assert bed.status.previous_revision is None
    assert first not in str(bed.children)


async def test_a_pod_that_somebody_deletes_is_replaced_and_nobody_is_blamed(bed: Bed) -> None:
    _, second = await promoted(bed)
    bed.remove(PODS, pod_of(bed, second)["metadata"]["name"])
    await bed.settle()
    for _ in range(5):
        await bed.advance(10)
    assert bed.selected == second
    assert bed.status.phase == "Ready"
    assert "RolledBackAfterPromotion" not in bed.events


async def test_a_process_that_dies_while_the_old_revision_serves_changes_nothing(bed: Bed) -> None:
    first, second = await promoted(bed)
    bed.kubelet.starts_containers = False
    bed.kubelet.evict(pod_of(bed, second))
    await bed.settle()
    await bed.restart()
    await bed.advance(60)
    assert bed.selected == first
    assert bed.status.failed_revision is None
    bed.kubelet.starts_containers = True
    await bed.restart()
    await bed.advance(5)
    assert bed.selected == second


async def test_more_replicas_within_the_window_blame_nobody(bed: Bed) -> None:
    _, second = await promoted(bed)
    bed.kubelet.has_room = False
    bed.declare(model="laya:en-better", replicas=3)
    await bed.settle()
    for _ in range(8):
        await bed.advance(50)
    assert bed.selected == second
    assert "RolledBackAfterPromotion" not in bed.events
    assert bed.status.failed_revision is None
    assert bed.status.replicas is not None
    assert (bed.status.replicas.model_ready, bed.status.replicas.desired) == (1, 3)

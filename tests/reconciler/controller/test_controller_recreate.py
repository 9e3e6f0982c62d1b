"""Strategy Recreate through the whole reconciler: who has Pods when, and who is asked for proof."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.controller.watched import CLAIMS, CONFIG_MAPS, DEPLOYMENTS
from tests.reconciler.controller.bed import Bed
from tests.reconciler.controller.kubelet import Failed
from tests.reconciler.controller.runtimes import FakeRuntime

pytestmark = pytest.mark.anyio

RECREATE: dict[str, Any] = {"rollout": {"strategy": "Recreate"}}


def replicas(bed: Bed) -> dict[str, int]:
    return {obj["metadata"]["name"]: obj["spec"]["replicas"] for obj in bed.objects(DEPLOYMENTS)}


async def promoted(bed: Bed) -> tuple[str, str]:
    """Roll two models out, one after the other; return their revisions."""
    first = await bed.rolled_out(**RECREATE)
    bed.declare(model="laya:multilingual", **RECREATE)
    await bed.settle()
    assert bed.status.stable_revision is not None
    return first, bed.status.stable_revision.hash


async def test_the_stable_makes_room_and_is_kept_without_pods(bed: Bed) -> None:
    first, second = await promoted(bed)
    assert bed.selected == second
    assert replicas(bed) == {f"router-{first}": 0, f"router-{second}": 1}
    assert len(bed.pods) == 1
    assert bed.events.count("StableStopped") == 1
    assert bed.sample("decisionmodel_rollouts_total", result="stable_stopped") == 1


async def test_a_revision_that_turns_bad_gives_its_place_back(bed: Bed) -> None:
    first, second = await promoted(bed)
    bed.runtime.device = "metal"
    bed.runtime.loaded = None
    for _ in range(16):
        await bed.advance(5)
    assert bed.status.phase == "RolledBack"
    assert bed.selected == first
    assert replicas(bed) == {f"router-{first}": 1}
    assert bed.gate()[0] == "True"
    assert bed.condition("Degraded")[1] == "PostPromotionUnhealthy"
    assert bed.events.count("StableRestored") == 1
    assert bed.status.recreate_rollback is None
    assert second not in str(bed.children)
    assert [obj["metadata"]["name"] for obj in bed.objects(CLAIMS)] == [f"router-store-{first}"]
    assert [obj["metadata"]["name"] for obj in bed.objects(CONFIG_MAPS)] == [f"router-manifest-{first}"]


async def test_a_candidate_that_cannot_be_cached_never_stops_the_stable(bed: Bed) -> None:
    first = await bed.rolled_out(**RECREATE)
    bed.kubelet.prefetch = lambda _: Failed()
    bed.declare(model="laya:multilingual", **RECREATE)
    await bed.settle()
    assert bed.status.phase == "RolledBack"
    assert replicas(bed) == {f"router-{first}": 1}
    assert "StableStopped" not in bed.events


async def test_a_reconciler_that_dies_in_the_middle_of_a_rollback_ends_it(bed: Bed) -> None:
    first, _ = await promoted(bed)
    bed.runtime.device = "metal"
    bed.runtime.loaded = None
    bed.kubelet.starts_containers = False
    for _ in range(16):
        await bed.advance(5)
    assert bed.status.recreate_rollback is not None
    await bed.kill()
    bed.kubelet.starts_containers = True
    bed.start()
    await bed.settle()
    for _ in range(4):
        await bed.advance(5)
    assert bed.status.phase == "RolledBack"
    assert bed.selected == first
    assert replicas(bed) == {f"router-{first}": 1}


async def test_an_evicted_pod_that_nobody_cleans_up_holds_no_room(bed: Bed) -> None:
    first = await bed.rolled_out(**RECREATE)
    bed.kubelet.evict(bed.pods[0])
    await bed.settle()
    await bed.advance(5)
    assert bed.status.phase == "Ready", "another Pod took its place"
    assert len(bed.pods) == 2

    bed.declare(model="laya:multilingual", **RECREATE)
    await bed.settle()
    assert bed.selected not in (first, None)
    assert bed.status.phase == "Ready"


async def test_neither_does_it_on_the_way_back(bed: Bed) -> None:
    first, second = await promoted(bed)
    (evicted,) = bed.pods

    def turn_bad_once(runtime: FakeRuntime) -> None:
        runtime.device = "metal"
        bed.kubelet.adjust = lambda _: None

    bed.kubelet.adjust = turn_bad_once
    bed.kubelet.evict(evicted)
    await bed.settle()
    await bed.advance(5)
    assert bed.status.phase == "RolledBack"
    assert bed.selected == first
    assert replicas(bed) == {f"router-{first}": 1}
    assert second not in str(bed.children)

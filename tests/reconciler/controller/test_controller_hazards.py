"""Moments in which what a pass sees is about to be untrue; tools.model_checker found them."""

from __future__ import annotations

import asyncio

import pytest

from api.conditions import Phase
from api.keys import REVISION_LABEL
from reconciler.controller.watched import CLAIMS, DEPLOYMENTS, JOBS, SERVICES
from tests.fakes.apiserver import Request
from tests.reconciler.controller.bed import Bed

pytestmark = pytest.mark.anyio


def promotes(request: Request) -> bool:
    """Whether a request writes a status with a new stable revision."""
    body = request.body
    return request.method == "PATCH" and isinstance(body, dict) and "stableRevision" in (body.get("status") or {})


async def test_a_promotion_whose_answer_is_lost_is_told_all_the_same(bed: Bed) -> None:
    bed.server.lose_answer(times=1, matches=promotes)
    bed.declare()
    await bed.settle()
    await bed.advance(5)
    assert bed.status.phase == "Ready"
    assert bed.events.count("Promoted") == 1


async def test_a_promotion_rests_on_pods_that_are_there_and_not_on_what_a_cache_still_shows(bed: Bed) -> None:
    await bed.rolled_out()
    removed: list[str] = []
    serving: list[str] = []

    def between_cache_and_promotion(request: Request) -> bool:
        candidate = bed.status.candidate_revision
        if not removed and candidate is not None and REVISION_LABEL in request.query.get("labelSelector", ""):
            name = f"router-{candidate.hash}"
            removed.append(bed.get(DEPLOYMENTS, name)["metadata"]["uid"])
            bed.remove(DEPLOYMENTS, name)
        if promotes(request) and candidate is not None:
            serving.append(bed.get(DEPLOYMENTS, f"router-{candidate.hash}")["metadata"]["uid"])
        return False

    bed.server.fail(500, matches=between_cache_and_promotion)
    bed.declare(model="laya:multilingual")
    for _ in range(4):
        await bed.advance(5)
    assert bed.events.count("Promoted") == 2
    assert len(removed) == len(serving) == 1
    assert removed != serving, "what was promoted is the Deployment that came after it"


async def test_a_candidate_that_comes_back_while_it_is_being_removed_is_made_anew(bed: Bed) -> None:
    stable = await bed.rolled_out(rollout={"promotion": "Manual"})
    bed.declare(model="laya:multilingual", rollout={"promotion": "Manual"})
    await bed.settle()
    assert bed.status.candidate_revision is not None
    candidate = bed.status.candidate_revision.hash
    before = bed.get(JOBS, f"router-pf-{candidate}")["metadata"]["uid"]

    removing, go_on = asyncio.Event(), asyncio.Event()

    async def pause() -> None:
        removing.set()
        await go_on.wait()

    bed.driver.before_write = pause
    bed.declare(rollout={"promotion": "Manual"})
    await bed.run_until(removing.is_set)
    # Everything of the candidate is still to be seen, and its removal is under way.
    bed.declare(model="laya:multilingual")
    await bed.run_until(lambda: bed.status.candidate_revision is not None)
    assert bed.status.phase is Phase.CACHING
    assert bed.selected == stable
    go_on.set()
    await bed.settle()
    for _ in range(6):
        await bed.advance(5)
    assert bed.status.stable_revision is not None
    assert bed.status.stable_revision.hash == candidate
    assert bed.selected == candidate
    assert bed.get(JOBS, f"router-pf-{candidate}")["metadata"]["uid"] != before
    assert bed.get(DEPLOYMENTS, f"router-{candidate}")


async def test_a_candidate_whose_store_was_deleted_is_cached_again(bed: Bed) -> None:
    await bed.rolled_out()
    bed.kubelet.starts_containers = False
    bed.declare(model="laya:multilingual")
    await bed.settle()
    assert bed.status.phase == "Starting"
    assert bed.status.candidate_revision is not None
    candidate = bed.status.candidate_revision.hash
    before = bed.get(JOBS, f"router-pf-{candidate}")["metadata"]["uid"]
    bed.remove(CLAIMS, f"router-store-{candidate}")
    await bed.settle()
    bed.kubelet.starts_containers = True
    for _ in range(4):
        await bed.advance(5)
    assert bed.get(JOBS, f"router-pf-{candidate}")["metadata"]["uid"] != before
    assert bed.status.stable_revision is not None
    assert bed.status.stable_revision.hash == candidate


async def test_a_window_does_not_end_while_the_service_is_missing(bed: Bed) -> None:
    stable = await bed.rolled_out()
    bed.declare(model="laya:multilingual")
    await bed.settle()
    assert bed.status.previous_revision is not None
    go_on = asyncio.Event()

    async def pause() -> None:
        await go_on.wait()

    bed.driver.before_write = pause
    bed.remove(SERVICES, "router")
    bed.clock.seconds += 400
    await bed.run_until(lambda: not bed.objects(SERVICES) and bed.driver.performed)
    assert bed.status.previous_revision
    assert any(stable in name for _, name in bed.children)
    go_on.set()
    await bed.settle()
    for _ in range(3):
        await bed.advance(30)
    assert not bed.status.previous_revision
    assert not any(stable in name for _, name in bed.children)

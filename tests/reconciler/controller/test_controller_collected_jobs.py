"""Finished prefetch Jobs that somebody deletes: what they did is recorded, and nothing depends on them any more."""

from __future__ import annotations

from typing import Any

import pytest

from api.keys import PROMOTE_ANNOTATION
from reconciler.controller.watched import CLAIMS, DEPLOYMENTS, JOBS
from tests.reconciler.controller.bed import Bed

pytestmark = pytest.mark.anyio

MANUAL: dict[str, Any] = {"model": "laya:multilingual", "rollout": {"promotion": "Manual"}}


async def waiting(bed: Bed) -> str:
    """Let a candidate wait for approval beside what serves; return its revision."""
    await bed.rolled_out(rollout={"promotion": "Manual"})
    bed.declare(**MANUAL)
    await bed.settle()
    assert bed.status.phase == "AwaitingPromotion"
    assert bed.status.candidate_revision is not None
    return bed.status.candidate_revision.hash


def uids(bed: Bed, revision: str) -> tuple[str, ...]:
    found = (bed.get(DEPLOYMENTS, f"router-{revision}"), bed.get(CLAIMS, f"router-store-{revision}"))
    return tuple(obj["metadata"]["uid"] for obj in found)


async def test_a_candidate_that_waits_for_approval_goes_on_waiting_and_can_be_approved(bed: Bed) -> None:
    candidate = await waiting(bed)
    before, operations = uids(bed, candidate), len(bed.driver.performed)
    for job in bed.objects(JOBS):
        bed.remove(JOBS, job["metadata"]["name"])
    await bed.settle()
    await bed.advance(61)

    assert bed.status.phase == "AwaitingPromotion"
    assert uids(bed, candidate) == before
    assert bed.objects(JOBS) == []
    assert len(bed.driver.performed) == operations, "a Job that is history is no drift"

    bed.declare(**MANUAL, annotations={PROMOTE_ANNOTATION: candidate})
    await bed.settle()
    await bed.advance(30)
    assert bed.selected == candidate
    assert uids(bed, candidate) == before


async def test_it_stays_so_over_a_restart_and_while_the_registry_and_the_tag_are_gone(bed: Bed) -> None:
    candidate = await waiting(bed)
    before = uids(bed, candidate)
    await bed.kill()
    bed.remove(JOBS, f"router-pf-{candidate}")
    bed.kubelet.prefetch = lambda _: False
    bed.start()
    await bed.settle()
    await bed.advance(1801)
    assert (bed.status.phase, uids(bed, candidate)) == ("AwaitingPromotion", before)


async def test_jobs_that_vanish_as_soon_as_they_end_hold_up_no_rollout(bed: Bed) -> None:
    await bed.rolled_out()
    bed.kubelet.starts_containers = False
    bed.declare(model="laya:multilingual")
    await bed.settle()
    assert bed.status.phase == "Starting"
    bed.kubelet.collects_jobs = True
    await bed.kubelet.sync()
    await bed.settle()
    assert bed.objects(JOBS) == []
    bed.kubelet.starts_containers = True
    for _ in range(3):
        await bed.advance(10)
    assert bed.status.stable_revision is not None
    assert bed.status.stable_revision.model == "laya:multilingual"
    assert bed.objects(JOBS) == []


async def test_a_store_created_again_since_is_not_taken_for_filled(bed: Bed) -> None:
    candidate = await waiting(bed)
    bed.kubelet.prefetch = lambda _: False
    bed.remove(JOBS, f"router-pf-{candidate}")
    bed.remove(CLAIMS, f"router-store-{candidate}")
    await bed.settle()
    await bed.advance(10)
    assert bed.status.phase == "Caching"
    assert bed.get(JOBS, f"router-pf-{candidate}")
    bed.kubelet.prefetch = lambda _: None
    for _ in range(3):
        await bed.advance(10)
    assert bed.status.phase == "AwaitingPromotion"


async def test_a_refilled_store_of_what_serves_is_not_refilled_again_without_its_job(bed: Bed) -> None:
    revision = await bed.rolled_out()
    await bed.advance(61)
    bed.remove(CLAIMS, f"router-store-{revision}")
    for _ in range(10):
        await bed.advance(5)
    assert bed.condition("Degraded") == ("", "", "")
    store = bed.get(CLAIMS, f"router-store-{revision}")["metadata"]["uid"]
    bed.remove(JOBS, f"router-pf-{revision}")
    for _ in range(6):
        await bed.advance(10)
    assert bed.events.count("StoreLost") == 1
    assert bed.objects(JOBS) == []
    assert bed.get(CLAIMS, f"router-store-{revision}")["metadata"]["uid"] == store

"""A status that is lost, wholly or in part: what serves is recognised from the live objects, and nothing of it goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from api.keys import PROMOTE_ANNOTATION, REVISION_RECORD_ANNOTATION
from api.status import DecisionModelStatus
from reconciler.controller.watched import CLAIMS, CONFIG_MAPS, DEPLOYMENTS, JOBS, SERVICES
from tests.reconciler.controller.bed import KEY, Bed
from tests.reconciler.controller.kubelet import Failed

pytestmark = pytest.mark.anyio
EXHAUSTIVE = pytest.mark.exhaustive

OTHER = "laya:multilingual"
MANUAL: dict[str, Any] = {"promotion": "Manual"}
RECREATE: dict[str, Any] = {"strategy": "Recreate"}
FIELDS = [field.alias or name for name, field in DecisionModelStatus.model_fields.items()]

Situation = Callable[[Bed], Awaitable[str]]
"""Brings a bed to rest somewhere; returns the revision that serves there."""


async def serving(bed: Bed) -> str:
    await bed.rolled_out()
    return await after(bed, 400)


async def watched(bed: Bed) -> str:
    await bed.rolled_out()
    bed.declare(model=OTHER)
    await bed.settle()
    assert bed.status.previous_revision is not None
    return await after(bed, 60)


async def awaiting(bed: Bed) -> str:
    await bed.rolled_out(rollout=MANUAL)
    bed.declare(model=OTHER, rollout=MANUAL)
    await bed.settle()
    assert bed.status.phase == "AwaitingPromotion"
    return await after(bed, 60)


async def caching(bed: Bed) -> str:
    await bed.rolled_out()
    bed.kubelet.prefetch = lambda _: False
    bed.declare(model=OTHER)
    await bed.settle()
    assert bed.status.phase == "Caching"
    return await after(bed, 60)


async def rejected(bed: Bed) -> str:
    await bed.rolled_out()
    bed.kubelet.prefetch = lambda _: Failed()
    bed.declare(model=OTHER)
    await bed.settle()
    assert bed.status.phase == "RolledBack"
    return await after(bed, 60)


async def replaced(bed: Bed) -> str:
    """The window after a Recreate rollout: the predecessor is there, without Pods."""
    await bed.rolled_out(rollout=RECREATE)
    bed.declare(model=OTHER, rollout=RECREATE)
    await bed.settle()
    assert bed.status.previous_revision is not None
    return await after(bed, 60)


async def labelled(bed: Bed) -> str:
    """Its Pods carry what the spec gives them, by which the revision is told from one without."""
    await bed.rolled_out(pods={"labels": {"team": "support"}, "annotations": {"mesh.example/inject": "no"}})
    return await after(bed, 400)


async def after(bed: Bed, seconds: float) -> str:
    await bed.advance(seconds)
    assert bed.selected is not None
    return bed.selected


def record(status: DecisionModelStatus) -> dict[str, Any]:
    """What is recorded of the revision that serves, but for what its runtime said of itself."""
    assert status.stable_revision is not None
    return {key: value for key, value in status.stable_revision.dump().items() if key != "precision"}


def traffic(bed: Bed, revision: str) -> dict[str, str]:
    """The UIDs of everything that answers the model's requests."""
    found = {
        "Service": bed.get(SERVICES, KEY.name),
        "Deployment": bed.get(DEPLOYMENTS, f"router-{revision}"),
        "store": bed.get(CLAIMS, f"router-store-{revision}"),
    }
    pods = [pod for pod in bed.pods if pod["metadata"]["labels"]["decisionmodel.io/revision"] == revision]
    found |= {pod["metadata"]["name"]: pod for pod in pods if bed.gate(pod)[0] == "True"}
    return {name: obj["metadata"]["uid"] for name, obj in found.items()}


SITUATIONS = [serving, watched, awaiting, caching, rejected, replaced, labelled]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("fields", [pytest.param([""], id="all"), pytest.param(FIELDS, id="each", marks=EXHAUSTIVE)])
async def test_whatever_of_the_status_is_lost_what_serves_goes_on_serving(
    bed: Bed, situation: Situation, fields: list[str]
) -> None:
    revision = await situation(bed)
    before, status, moment = traffic(bed, revision), bed.status, bed.moment()
    assert len(before) > 3
    present = set(status.dump())
    for field in (each for each in fields if not each or each in present):
        await bed.restart_at(moment)
        bed.lose_status(*filter(None, [field]))
        await bed.settle()
        assert traffic(bed, revision) == before, field
        for _ in range(3):
            await bed.advance(20)
        assert bed.selected == revision, field
        assert traffic(bed, revision) == before, field
        assert record(bed.status) == record(status), field
        assert bed.status.phase in {status.phase, "Ready"}, field
        assert bed.condition("Ready")[0] == "True", field
        assert ("StatusRecovered" in bed.events) == (field in {"", "stableRevision"}), field


async def test_a_running_reconciler_recognises_what_serves_and_tells_it(bed: Bed) -> None:
    revision = await serving(bed)
    before, operations = traffic(bed, revision), len(bed.driver.performed)
    bed.lose_status()
    await bed.settle()
    assert traffic(bed, revision) == before
    assert len(bed.driver.performed) == operations
    assert bed.events.count("StatusRecovered") == 1
    assert bed.condition("Promoted")[1] == "StatusRecovered"
    assert revision in bed.condition("Promoted")[2]
    assert (bed.status.phase, bed.condition("Ready")[0]) == ("Ready", "True")
    await bed.restart()
    assert bed.events.count("Promoted") == 1, "no promotion is told that was none"


async def test_nothing_is_done_before_the_record_is_persisted(bed: Bed) -> None:
    revision = await serving(bed)
    before = traffic(bed, revision)
    bed.server.fail(500, times=3, matches=lambda request: request.method == "PATCH" and "/status" in request.path)
    bed.lose_status()
    for _ in range(8):
        await bed.advance(5)
    assert traffic(bed, revision) == before
    assert bed.status.stable_revision is not None


@pytest.mark.parametrize("collected", [False, True])
async def test_a_candidate_that_waits_for_approval_keeps_its_pods_and_can_be_approved(
    bed: Bed, *, collected: bool
) -> None:
    await awaiting(bed)
    candidate = bed.status.candidate_revision
    assert candidate is not None
    deployment = bed.get(DEPLOYMENTS, f"router-{candidate.hash}")["metadata"]["uid"]
    if collected:
        bed.remove(JOBS, f"router-pf-{candidate.hash}")
        await bed.settle()
    bed.lose_status()
    await bed.settle()
    assert bed.status.phase == "AwaitingPromotion"
    assert bed.get(DEPLOYMENTS, f"router-{candidate.hash}")["metadata"]["uid"] == deployment
    bed.declare(model=OTHER, rollout=MANUAL, annotations={PROMOTE_ANNOTATION: candidate.hash})
    await bed.settle()
    assert bed.selected == candidate.hash


async def test_a_tag_that_moved_meanwhile_starts_no_rollout(bed: Bed) -> None:
    revision = await serving(bed)
    stable, before = record(bed.status), traffic(bed, revision)
    move(bed)
    bed.lose_status()
    await bed.settle()
    await bed.advance(61)
    assert record(bed.status) == stable
    assert traffic(bed, revision) == before


def move(bed: Bed) -> None:
    """Let the tag stand for another model."""
    bed.registry.move_tag("laya:en", "laya:en-better")


def without_annotation(bed: Bed, revision: str) -> None:
    """Leave the Deployment as an earlier version made it."""

    def strip(obj: dict[str, Any]) -> None:
        del obj["metadata"]["annotations"][REVISION_RECORD_ANNOTATION]

    bed.edit(DEPLOYMENTS, f"router-{revision}", strip)


SPECS: list[dict[str, Any]] = [
    {},
    {"resources": {"requests": {"cpu": "2"}, "limits": {"memory": "6Gi", "cpu": "4"}}},
    {"device": "cuda", "scheduling": {"nodeSelector": {"pool": "gpu"}, "tolerations": [{"operator": "Exists"}]}},
]


@pytest.mark.parametrize("spec", SPECS, ids=["plain", "resources", "gpu"])
@pytest.mark.parametrize("source", ["job", "manifest"])
async def test_objects_of_an_earlier_version_tell_enough(bed: Bed, spec: dict[str, Any], source: str) -> None:
    """Without the annotation, with another spec meanwhile, and with what tells the digest only once."""
    revision = await bed.rolled_out(**spec)
    await bed.advance(400)
    stable, before = record(bed.status), traffic(bed, revision)
    await bed.kill()
    without_annotation(bed, revision)
    if source == "job":
        bed.remove(CONFIG_MAPS, f"router-manifest-{revision}")
    else:
        bed.remove(JOBS, f"router-pf-{revision}")
        move(bed)
    bed.lose_status()
    bed.kubelet.starts_containers = False
    bed.declare(model=OTHER if source == "job" else "laya:en", device="cpu", resources={}, rollout=MANUAL)
    bed.start()
    await bed.settle()
    assert record(bed.status) == stable
    assert traffic(bed, revision) == before
    assert "revision-record" not in str(bed.get(DEPLOYMENTS, f"router-{revision}")), "nothing is written for its sake"


async def test_what_cannot_be_proved_is_left_as_it_is_and_told(bed: Bed) -> None:
    revision = await serving(bed)
    before = traffic(bed, revision)
    await bed.kill()
    without_annotation(bed, revision)
    bed.remove(JOBS, f"router-pf-{revision}")
    bed.remove(CONFIG_MAPS, f"router-manifest-{revision}")
    bed.lose_status()
    bed.declare(model=OTHER)
    bed.start()
    await bed.settle()
    await bed.advance(61)
    assert traffic(bed, revision) == before
    assert bed.driver.performed == []
    assert bed.condition("Degraded")[1] == "StatusLost"
    assert "delete Service router" in bed.condition("Degraded")[2]
    assert bed.condition("Ready")[:2] == ("True", "StatusLost")
    assert bed.events.count("StatusLost") == 1

    bed.declare(model="laya:en")  # what the spec asks for proves it
    await bed.settle()
    await bed.advance(61)
    assert (bed.status.phase, traffic(bed, revision)) == ("Ready", before)
    assert bed.condition("Degraded") == ("", "", "")


async def test_who_gives_up_what_serves_gets_what_the_spec_asks_for(bed: Bed) -> None:
    revision = await serving(bed)
    await bed.kill()
    without_annotation(bed, revision)
    for resource, name in ((JOBS, f"router-pf-{revision}"), (CONFIG_MAPS, f"router-manifest-{revision}")):
        bed.remove(resource, name)
    bed.lose_status()
    bed.declare(model=OTHER)
    bed.start()
    await bed.settle()
    bed.remove(SERVICES, KEY.name)
    for _ in range(3):
        await bed.advance(61)
    assert bed.status.phase == "Ready"
    assert bed.status.stable_revision is not None
    assert bed.status.stable_revision.model == OTHER
    assert revision not in str(bed.children)


async def test_an_older_status_takes_nothing_from_clients(bed: Bed) -> None:
    """As a backup brings it back: what it calls stable is gone, and what serves is a candidate to it, or unknown."""
    await bed.rolled_out(rollout=RECREATE)
    first = bed.status
    bed.kubelet.starts_containers = False
    bed.declare(model=OTHER, rollout=RECREATE)
    await bed.settle()
    second = bed.status
    bed.kubelet.starts_containers = True
    await bed.settle()
    revision = await after(bed, 60)
    await bed.advance(400)
    before, moment = traffic(bed, revision), bed.moment()
    for older in (first, second):
        await bed.restart_at(moment)
        bed.restore_status(older)
        await bed.settle()
        await bed.advance(61)
        assert traffic(bed, revision) == before
        assert bed.status.stable_revision is not None
        assert bed.status.stable_revision.hash == revision

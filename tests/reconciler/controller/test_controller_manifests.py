"""The manifest ConfigMap of a candidate, broken or deleted while its prefetch Job still needs it (spec section 4.2)."""

from __future__ import annotations

import base64
import hashlib

import pytest

from reconciler.controller.watched import CONFIG_MAPS, JOBS
from tests.reconciler.controller.bed import Bed

pytestmark = pytest.mark.anyio


async def caching(bed: Bed) -> str:
    """Declare a model whose prefetch Job does not end; return its revision."""
    bed.kubelet.prefetch = lambda _: False
    bed.declare()
    await bed.settle()
    assert bed.status.candidate_revision is not None
    return bed.status.candidate_revision.hash


def harm(bed: Bed, revision: str, *, deleted: bool) -> None:
    name = f"router-manifest-{revision}"
    if deleted:
        bed.remove(CONFIG_MAPS, name)
    else:
        bed.edit(CONFIG_MAPS, name, lambda obj: obj["binaryData"].update(manifest="e30="))


def job(bed: Bed, revision: str) -> tuple[str, bool]:
    """The Job's UID, and whether it was given the manifest."""
    found = bed.get(JOBS, f"router-pf-{revision}")
    volumes = found["spec"]["template"]["spec"]["volumes"]
    return found["metadata"]["uid"], any("configMap" in volume for volume in volumes)


async def live_on(bed: Bed) -> None:
    for _ in range(3):
        await bed.advance(10)


@pytest.mark.parametrize("deleted", [False, True])
async def test_it_is_made_again_from_the_verified_bytes_and_the_job_runs_again(bed: Bed, *, deleted: bool) -> None:
    revision = await caching(bed)
    before, _ = job(bed, revision)
    harm(bed, revision, deleted=deleted)
    await live_on(bed)
    kept = base64.b64decode(bed.get(CONFIG_MAPS, f"router-manifest-{revision}")["binaryData"]["manifest"])
    assert bed.status.candidate_revision is not None
    assert hashlib.sha256(kept).hexdigest() == bed.status.candidate_revision.digest
    after, seeded = job(bed, revision)
    assert after != before
    assert seeded
    assert bed.events.count("ManifestRepaired") == 1
    bed.kubelet.prefetch = lambda _: None
    await bed.settle()
    assert bed.status.phase == "Ready"


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_process_that_never_had_the_bytes_lets_the_job_do_without(bed: Bed, *, deleted: bool) -> None:
    revision = await caching(bed)
    await bed.restart()
    harm(bed, revision, deleted=deleted)
    await live_on(bed)
    assert bed.events.count("ManifestInvalid") == 1
    assert not [obj for obj in bed.objects(CONFIG_MAPS) if obj["metadata"]["name"].startswith("router-manifest")]
    assert job(bed, revision)[1] is False
    bed.kubelet.prefetch = lambda _: None
    await bed.settle()
    assert bed.status.phase == "Ready"


async def test_one_that_is_sound_is_left_alone(bed: Bed) -> None:
    revision = await caching(bed)
    before = job(bed, revision)
    await live_on(bed)
    assert job(bed, revision) == before
    assert not {"ManifestRepaired", "ManifestInvalid"} & set(bed.events)


async def test_somebody_elses_under_its_name_is_never_touched(bed: Bed) -> None:
    revision = await caching(bed)
    harm(bed, revision, deleted=True)
    metadata = {"name": f"router-manifest-{revision}", "namespace": "default"}
    bed.server.put("v1", "configmaps", {"kind": "ConfigMap", "metadata": metadata, "data": {"theirs": "1"}})
    await live_on(bed)
    assert job(bed, revision)[1] is False
    bed.kubelet.prefetch = lambda _: None
    await bed.settle()
    bed.declare(model="laya:multilingual", rollout={"stabilization": "0s"})
    await bed.settle()
    await bed.advance(40)
    assert bed.get(CONFIG_MAPS, f"router-manifest-{revision}")["data"] == {"theirs": "1"}

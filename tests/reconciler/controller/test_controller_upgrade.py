"""A cluster that version 0.3 of the decision-model-operator left behind: what serves is taken over, never restarted."""

from __future__ import annotations

from typing import Any

import pytest

from api.keys import API_KEY_CHECKSUM_ANNOTATION, API_VERSION, PLURAL
from reconciler.controller.watched import BY_KIND, DEPLOYMENTS
from reconciler.engine.api_key import legacy_checksum
from tests.fakes.version_0_3 import left_behind
from tests.reconciler.controller.bed import Bed

pytestmark = pytest.mark.anyio


async def left_by_0_3(bed: Bed, *, api_key_checksum: str | None = None, **spec: Any) -> str:
    """Leave a model in the cluster that version 0.3 served until now; return its revision."""
    model, digest = bed.declare(**spec), bed.registry.digest("laya:en")
    left = left_behind(bed.model, digest, bed.options.controller, api_key_checksum=api_key_checksum)
    for kind, obj in left.objects.items():
        bed.server.put(BY_KIND[kind].api_version, BY_KIND[kind].plural, obj)
    bed.server.put(API_VERSION, PLURAL, {**model, "status": left.status})
    while await bed.kubelet.sync():
        pass
    return left.revision


async def test_what_serves_is_taken_over_and_never_restarted(bed: Bed) -> None:
    legacy = await left_by_0_3(bed)
    before = {each["metadata"]["name"]: each["metadata"]["uid"] for each in bed.pods}
    bed.start()
    await bed.settle()
    for _ in range(4):
        await bed.advance(20)
    assert bed.status.stable_revision is not None
    assert (bed.status.stable_revision.hash, bed.status.stable_revision.placement) == (legacy, "none")
    assert bed.status.phase == "Ready"
    assert bed.selected == legacy
    assert {each["metadata"]["name"]: each["metadata"]["uid"] for each in bed.pods} == before
    assert [name for kind, name in bed.children if kind == "PersistentVolumeClaim"] == ["router-store"]
    assert "StoreLost" not in bed.events


async def test_a_key_that_was_recorded_by_its_plain_hash_rolls_nothing(bed: Bed) -> None:
    bed.put_secret("key", "secret")
    recorded = legacy_checksum(b"secret")
    auth = {"apiKeySecretRef": {"name": "key", "key": "api-key"}}
    legacy = await left_by_0_3(bed, api_key_checksum=recorded, auth=auth)
    before = bed.get(DEPLOYMENTS, f"router-{legacy}")["spec"]["template"]
    bed.start()
    await bed.settle()
    assert bed.status.phase == "Ready"
    deployment = bed.get(DEPLOYMENTS, f"router-{legacy}")
    assert deployment["spec"]["template"] == before
    assert deployment["metadata"]["annotations"][API_KEY_CHECKSUM_ANNOTATION] != recorded


async def test_its_successor_gets_a_store_of_its_own_and_the_shared_one_goes(bed: Bed) -> None:
    legacy = await left_by_0_3(bed)
    bed.start()
    await bed.settle()
    bed.declare(model="laya:multilingual", rollout={"stabilization": "0s"})
    await bed.settle()
    for _ in range(6):
        await bed.advance(20)
    stable = bed.status.stable_revision
    assert stable is not None
    assert stable.model == "laya:multilingual"
    assert not [name for _, name in bed.children if legacy in name or name == "router-store"]
    assert bed.selected == stable.hash

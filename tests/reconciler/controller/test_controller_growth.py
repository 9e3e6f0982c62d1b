"""A grown cache through the whole reconciler: one patch, granted or refused, beside everything else."""

from __future__ import annotations

import pytest

from reconciler.controller.watched import CLAIMS, DEPLOYMENTS
from tests.fakes.apiserver import Request
from tests.reconciler.controller.bed import Bed

pytestmark = pytest.mark.anyio


def is_growth(request: Request) -> bool:
    return request.method == "PATCH" and "/persistentvolumeclaims/" in request.path


def size_of(bed: Bed, revision: str) -> str:
    return str(bed.get(CLAIMS, f"router-store-{revision}")["spec"]["resources"]["requests"]["storage"])


async def test_a_larger_cache_grows_in_place(bed: Bed) -> None:
    revision = await bed.rolled_out()
    bed.declare(cache={"size": "20Gi"})
    await bed.settle()
    assert size_of(bed, revision) == "20Gi"
    assert bed.condition("Degraded") == ("", "", "")
    assert bed.status.stable_revision is not None
    assert bed.status.stable_revision.hash == revision


async def test_a_refused_growth_is_told_once_and_blocks_nothing(bed: Bed) -> None:
    revision = await bed.rolled_out()
    refused = bed.server.fail(403, matches=is_growth, times=100)
    bed.declare(cache={"size": "20Gi"}, replicas=2)
    await bed.settle()
    await bed.advance(60)
    assert size_of(bed, revision) == "10Gi"
    assert bed.condition("Degraded")[1] == "CacheSpecImmutable"
    assert bed.get(DEPLOYMENTS, f"router-{revision}")["spec"]["replicas"] == 2
    assert refused.remaining == 99


async def test_what_was_refused_is_asked_for_again_later_and_told_until_it_is_granted(bed: Bed) -> None:
    revision = await bed.rolled_out()
    bed.server.fail(403, matches=is_growth, times=2)
    bed.declare(cache={"size": "20Gi"})
    await bed.settle()
    await bed.advance(310)
    assert size_of(bed, revision) == "10Gi"
    writes = len(bed.status_writes)
    await bed.advance(200)
    assert bed.condition("Degraded")[1] == "CacheSpecImmutable"
    assert len(bed.status_writes) == writes
    await bed.advance(120)
    assert size_of(bed, revision) == "20Gi"
    assert bed.condition("Degraded") == ("", "", "")

"""A lost store through the whole reconciler: the claim, the Job and the Deployment that must survive it."""

from __future__ import annotations

import pytest

from api.keys import STORE_RECOVERING_ANNOTATION
from reconciler.controller.watched import CLAIMS, DEPLOYMENTS, JOBS, PODS
from reconciler.kernel.resources import Resource
from tests.fakes.json_copy import json_copy
from tests.reconciler.controller.bed import Bed
from tests.reconciler.controller.kubelet import Failed

pytestmark = pytest.mark.anyio


def uid(bed: Bed, resource: Resource, name: str) -> str:
    return str(bed.get(resource, name)["metadata"]["uid"])


async def lose_store(bed: Bed, revision: str) -> None:
    """Delete the store of a revision whose Job is a day old."""
    job = bed.get(JOBS, f"router-pf-{revision}")
    job["metadata"]["creationTimestamp"] = "2025-12-31T00:00:00Z"
    bed.edit(JOBS, f"router-pf-{revision}", lambda obj: obj["metadata"].update(annotations={"touched": "true"}))
    await bed.settle()
    bed.remove(CLAIMS, f"router-store-{revision}")
    await bed.settle()


async def live_until_refilled(bed: Bed) -> None:
    for _ in range(8):
        await bed.next_pass()


async def test_a_lost_store_is_refilled_under_a_running_deployment(bed: Bed) -> None:
    revision = await bed.rolled_out()
    deployment = uid(bed, DEPLOYMENTS, f"router-{revision}")
    job = uid(bed, JOBS, f"router-pf-{revision}")

    await lose_store(bed, revision)
    await live_until_refilled(bed)

    claim = bed.get(CLAIMS, f"router-store-{revision}")
    assert STORE_RECOVERING_ANNOTATION not in claim["metadata"]["annotations"]
    assert uid(bed, JOBS, f"router-pf-{revision}") != job
    assert uid(bed, DEPLOYMENTS, f"router-{revision}") == deployment
    assert bed.events.count("StoreLost") == 1
    assert bed.status.phase == "Ready"
    assert bed.condition("Degraded") == ("", "", "")


async def test_a_store_younger_than_the_promotion_is_refilled_although_nothing_marks_it(bed: Bed) -> None:
    """As an operation leaves it that was planned before the loss; no Job is left that could tell."""
    revision = await bed.rolled_out()
    await bed.advance(61)
    claim = json_copy(bed.get(CLAIMS, f"router-store-{revision}"))
    del claim["metadata"]["creationTimestamp"], claim["metadata"]["uid"]
    bed.remove(JOBS, f"router-pf-{revision}")
    bed.remove(CLAIMS, f"router-store-{revision}")
    bed.server.put(CLAIMS.api_version, CLAIMS.plural, claim)
    await bed.settle()
    await live_until_refilled(bed)

    assert bed.events.count("StoreLost") == 1
    assert bed.get(JOBS, f"router-pf-{revision}")
    assert STORE_RECOVERING_ANNOTATION not in bed.get(CLAIMS, f"router-store-{revision}")["metadata"]["annotations"]
    assert bed.condition("Degraded") == ("", "", "")


async def test_a_store_that_cannot_be_refilled_is_left_marked_and_told(bed: Bed) -> None:
    revision = await bed.rolled_out()
    bed.kubelet.prefetch = lambda _: Failed()

    await lose_store(bed, revision)
    await live_until_refilled(bed)

    claim = bed.get(CLAIMS, f"router-store-{revision}")
    assert claim["metadata"]["annotations"][STORE_RECOVERING_ANNOTATION] == "true"
    assert bed.objects(JOBS) == []
    assert bed.condition("Degraded")[1] == "StorePrefetchFailed"
    assert bed.condition("Ready")[0] == "True"
    assert bed.status.store_recovery is not None
    assert (bed.status.store_recovery.attempts, bed.status.store_recovery.exhausted) == (1, True)


async def test_where_nothing_answers_no_pod_is_there_until_the_store_is_filled(bed: Bed) -> None:
    """A Pod that mounted the empty claim before the Job could keep the Job away from it for good."""
    revision = await bed.rolled_out(cache={"accessModes": ["ReadWriteOncePod"]})
    await bed.advance(61)
    bed.kubelet.prefetch = lambda _: False
    mounted: list[str] = []

    async def look() -> None:
        claims = [obj["metadata"]["name"] for obj in bed.objects(CLAIMS)]
        running = [job for job in bed.objects(JOBS) if not job.get("status")]
        if claims and not running:
            mounted.extend(pod["metadata"]["name"] for pod in bed.pods)

    deployment = uid(bed, DEPLOYMENTS, f"router-{revision}")
    await bed.kill()
    bed.remove(CLAIMS, f"router-store-{revision}")
    bed.kubelet.restart(bed.pods[0])
    bed.edit(PODS, bed.pods[0]["metadata"]["name"], lambda pod: pod["status"].update(conditions=[]))
    bed.start()
    bed.driver.before_write = look
    for _ in range(6):
        await bed.advance(5)

    assert bed.get(DEPLOYMENTS, f"router-{revision}")["spec"]["replicas"] == 0
    assert (bed.pods, mounted) == ([], [])
    assert bed.get(JOBS, f"router-pf-{revision}")
    assert bed.condition("Degraded")[1] == "StoreLost"
    assert "no Pod is started before that" in bed.condition("Degraded")[2]

    bed.kubelet.prefetch = lambda _: None
    for _ in range(4):
        await bed.advance(5)
    assert bed.status.phase == "Ready"
    assert uid(bed, DEPLOYMENTS, f"router-{revision}") == deployment
    assert bed.get(DEPLOYMENTS, f"router-{revision}")["spec"]["replicas"] == 1

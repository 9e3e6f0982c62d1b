"""A container that somebody injects into prefetch Pods and that never ends: the Job's own work counts."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.controller.observation import has_done_its_work
from reconciler.controller.watched import JOBS, PODS
from tests.reconciler.controller.bed import Bed

pytestmark = pytest.mark.anyio


def prefetch_pods(bed: Bed) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in bed.objects(PODS)
        if "decisionmodel.io/prefetch-revision" in pod["metadata"]["labels"]
    ]


async def test_the_model_becomes_ready_and_the_pod_lets_go_of_the_store(bed: Bed) -> None:
    bed.kubelet.inject = "istio-proxy"
    revision = await bed.rolled_out()

    job = bed.get(JOBS, f"router-pf-{revision}")
    assert (job["spec"]["suspend"], job["metadata"]["annotations"]["decisionmodel.io/prefetched"]) == (True, "true")
    assert prefetch_pods(bed) == []
    assert bed.condition("Cached")[:2] == ("True", "Cached")


async def test_the_job_stays_what_it_is(bed: Bed) -> None:
    """It is neither run again nor mourned, whoever looks at it later."""
    bed.kubelet.inject = "istio-proxy"
    revision = await bed.rolled_out()
    uid = bed.get(JOBS, f"router-pf-{revision}")["metadata"]["uid"]
    bed.server.requests.clear()

    await bed.restart()
    await bed.advance(4000)
    assert bed.get(JOBS, f"router-pf-{revision}")["metadata"]["uid"] == uid
    assert (bed.status.phase, bed.selected) == ("Ready", revision)
    assert [write for write in bed.server.writes if "/jobs" in str(write)] == []


async def test_a_reconciler_that_dies_before_it_suspends_the_job_does_so_later(bed: Bed) -> None:
    bed.kubelet.inject = "istio-proxy"
    bed.server.fail(500, matches=lambda request: request.method == "PATCH" and "/jobs/" in request.path, times=1)
    revision = await bed.rolled_out()
    await bed.advance(60)
    assert bed.get(JOBS, f"router-pf-{revision}")["spec"]["suspend"] is True
    assert prefetch_pods(bed) == []


async def test_a_download_that_failed_is_not_done(bed: Bed) -> None:
    bed.kubelet.inject, bed.kubelet.inject_exit = "istio-proxy", 7
    bed.declare()
    await bed.settle()
    assert bed.status.phase == "Caching"
    (job,) = bed.objects(JOBS)
    assert "suspend" not in job["spec"]


@pytest.mark.parametrize(
    ("states", "done"),
    [
        ({"prefetch": {"terminated": {"exitCode": 0}}}, False),
        ({"prefetch": {"terminated": {"exitCode": 0}}, "mesh-proxy": {"terminated": {"exitCode": 0}}}, False),
        ({"prefetch": {"terminated": {"exitCode": 0}}, "mesh-proxy": {"running": {}}}, True),
        ({"prefetch": {"terminated": {"exitCode": 1}}, "mesh-proxy": {"running": {}}}, False),
        ({"prefetch": {"running": {}}, "mesh-proxy": {"running": {}}}, False),
    ],
    ids=["the kubelet takes the Pod down", "and another container's too", "another runs on", "it failed", "it runs"],
)
def test_only_a_job_that_another_container_keeps_is_taken_for_done(states: dict[str, Any], done: bool) -> None:
    job = {"metadata": {"name": "pf", "uid": "job"}, "spec": {}, "status": {}}
    owner = {"kind": "Job", "name": "pf", "uid": "job", "controller": True}
    status = {"phase": "Running", "containerStatuses": [{"name": name, "state": each} for name, each in states.items()]}
    pod = {"metadata": {"name": "pf-1", "uid": "pod", "ownerReferences": [owner]}, "status": status}
    assert has_done_its_work(job, (pod,)) is done

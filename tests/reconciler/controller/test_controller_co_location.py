"""Several replicas on a store that one node can mount: nothing restarts, no drain is blocked, and all is told."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.controller.watched import DEPLOYMENTS
from tests.reconciler.controller.bed import Bed

pytestmark = pytest.mark.anyio

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NEAR_OTHERS = {
    "affinity": {
        "podAffinity": {
            REQUIRED: [{"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}]
        }
    }
}


def template(bed: Bed, revision: str) -> Any:
    return bed.get(DEPLOYMENTS, f"router-{revision}")["spec"]["template"]


def required(bed: Bed, revision: str) -> list[Any]:
    """The terms that bind the Pods of a revision to others."""
    terms: list[Any] = template(bed, revision)["spec"]["affinity"]["podAffinity"].get(REQUIRED, [])
    return terms


async def test_a_second_replica_restarts_nothing_and_brings_no_budget(bed: Bed) -> None:
    revision = await bed.rolled_out()
    before, first = template(bed, revision), {pod["metadata"]["uid"] for pod in bed.pods}
    assert required(bed, revision) == [], "the replacement of a single Pod is bound to no node"

    await bed.rolled_out(replicas=2)
    assert template(bed, revision) == before
    assert first < {pod["metadata"]["uid"] for pod in bed.pods}
    assert not [name for kind, name in bed.children if kind == "PodDisruptionBudget"]


async def test_a_revision_that_starts_with_several_replicas_is_kept_on_one_node_and_says_so(bed: Bed) -> None:
    revision = await bed.rolled_out(replicas=2)
    assert len(required(bed, revision)) == 1
    assert bed.events.count("ReplicasCoLocated") == 1
    assert not [name for kind, name in bed.children if kind == "PodDisruptionBudget"]


@pytest.mark.parametrize("spec", [{"replicas": 1}, {"replicas": 2, "cache": {"accessModes": ["ReadWriteMany"]}}])
async def test_nothing_is_said_where_pods_need_not_share_a_node(bed: Bed, spec: dict[str, Any]) -> None:
    await bed.rolled_out(**spec)
    assert "ReplicasCoLocated" not in bed.events


async def test_what_can_never_be_scheduled_is_refused_before_the_download(bed: Bed) -> None:
    bed.declare(replicas=2, scheduling=NEAR_OTHERS)
    await bed.settle()
    status, reason, message = bed.condition("Ready")
    assert (bed.status.phase, status, reason) == ("Degraded", "False", "CacheNotShareable")
    assert "ReadWriteMany" in message
    assert bed.children == []

    revision = await bed.rolled_out(replicas=1, scheduling=NEAR_OTHERS)
    assert required(bed, revision) == NEAR_OTHERS["affinity"]["podAffinity"][REQUIRED]


async def test_a_refused_revision_leaves_what_serves_alone(bed: Bed) -> None:
    revision = await bed.rolled_out()
    bed.declare(replicas=2, cache={"accessModes": ["ReadWriteOncePod"]}, model="laya:en-better")
    await bed.settle()
    assert bed.selected == revision
    assert bed.condition("Degraded")[1] == "CacheNotShareable"
    assert [name for kind, name in bed.children if kind == "Job"] == [f"router-pf-{revision}"]

"""A reconciler that dies between any two of its writes: the next one ends where an undisturbed one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.reconciler.controller.bed import Bed, open_bed
from tools.standin.registry import Registry

pytestmark = pytest.mark.anyio


async def declared(bed: Bed, *, second: bool) -> None:
    """Roll a first model out, if it is the second one that is to be disturbed, and declare the next."""
    if second:
        bed.start()
        await bed.rolled_out()
        await bed.kill()
    bed.declare(model="laya:en-better" if second else "laya:en")


def outcome(bed: Bed) -> dict[str, Any]:
    """What users and the cluster see in the end."""
    status = bed.status
    assert status.stable_revision is not None
    return {
        "phase": status.phase,
        "stable": status.stable_revision.hash,
        "previous": None if status.previous_revision is None else status.previous_revision.hash,
        "candidate": status.candidate_revision,
        "failed": status.failed_revision,
        "children": bed.children,
        "selected": bed.selected,
        "stacks": [sorted(state) for state in bed.driver.states.values()],
        "seeds": sorted(obj["metadata"]["name"] for obj in bed.server.objects("v1", "configmaps")),
    }


@pytest.mark.parametrize(
    "second", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["first rollout", "promotion"]
)
async def test_wherever_the_reconciler_dies_the_next_one_ends_the_same(
    registry: Registry, tmp_path: Path, *, second: bool
) -> None:
    async with open_bed(registry, tmp_path) as bed:
        await declared(bed, second=second)
        moments = bed.start_recorded()
        await bed.settle()
        expected, promotions = outcome(bed), bed.events.count("Promoted")

        for moment in moments:
            await bed.restart_at(moment)
            assert outcome(bed) == expected, moment.label
            assert bed.events.count("Promoted") == promotions, moment.label
    assert len(moments) > 10, "every write was a moment to die"

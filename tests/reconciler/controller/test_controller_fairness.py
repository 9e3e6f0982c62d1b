"""What one namespace lets run for ever keeps no other namespace's from running."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from api.keys import API_VERSION, PLURAL
from reconciler import main
from reconciler.controller.evaluation_subject import EVALUATION_TASKS
from reconciler.controller.resolution import RESOLVE_TASKS
from reconciler.engine.names import ModelName
from tests.reconciler.controller.bed import Bed
from tests.reconciler.controller.runtimes import FakeRuntime

pytestmark = pytest.mark.anyio

GREEDY = "greedy"
GATE: dict[str, Any] = {"datasetRef": {"configMapRef": {"name": "golden", "key": "cases"}}, "minAccuracy": "0.8"}
QUESTION = {"type": "noul"}
RIGHT = {"answers": {"q": {"type": "noul", "noul": 0.9}}}


def put_dataset(bed: Bed, namespace: str) -> None:
    case = json.dumps({"state": "any", "questions": {"q": QUESTION}, "expected": {"q": True}})
    metadata = {"name": "golden", "namespace": namespace}
    bed.server.put("v1", "configmaps", {"kind": "ConfigMap", "metadata": metadata, "data": {"cases": case}})


def never_decides(runtime: FakeRuntime) -> None:
    runtime.silent_on = frozenset({"/v1/systemone"})


def decides(runtime: FakeRuntime) -> None:
    runtime.decide = lambda _: (200, RIGHT)


def greedy_phases(bed: Bed) -> list[str]:
    found = (bed.server.object(API_VERSION, PLURAL, GREEDY, f"g{number}") for number in range(6))
    return [obj["status"]["phase"] for obj in found if obj is not None]


async def test_evaluations_that_never_end_leave_room_for_those_of_others(
    idle_bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = idle_bed
    monkeypatch.setitem(main._TASK_LIMITS, EVALUATION_TASKS, 4)
    bed.start()
    bed.kubelet.adjust = never_decides
    put_dataset(bed, GREEDY)
    for number in range(6):
        bed.declare(f"g{number}", namespace=GREEDY, rollout={"evaluation": GATE})
    await bed.settle()
    assert greedy_phases(bed) == ["Evaluating"] * 6
    assert bed.runtimes.hanging >= 3

    bed.kubelet.adjust = decides
    put_dataset(bed, "default")
    bed.declare(rollout={"evaluation": GATE})
    await bed.settle()
    assert bed.status.phase == "Ready"
    assert bed.status.evaluation is not None


async def test_the_deadline_of_an_evaluation_counts_from_its_turn(
    idle_bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = idle_bed
    monkeypatch.setitem(main._TASK_LIMITS, EVALUATION_TASKS, 4)
    bed.start()
    bed.kubelet.adjust = never_decides
    put_dataset(bed, GREEDY)
    for number in range(6):
        bed.declare(f"g{number}", namespace=GREEDY, rollout={"evaluation": GATE, "timeouts": {"evaluating": "10m"}})
    await bed.settle()
    await bed.advance(10)
    told = [
        condition["message"]
        for number in range(6)
        for condition in bed.server.object(API_VERSION, PLURAL, GREEDY, f"g{number}")["status"]["conditions"]  # type: ignore[index]  # it is there
        if condition["type"] == "Evaluated"
    ]
    assert told.count("the candidate waits for its turn to be scored") == 3

    await bed.advance(591)
    await bed.advance(11)
    assert sorted(greedy_phases(bed)) == ["Evaluating"] * 3 + ["Failed"] * 3
    await bed.advance(500)
    assert sorted(greedy_phases(bed)) == ["Evaluating"] * 3 + ["Failed"] * 3
    await bed.advance(101)
    await bed.advance(11)
    assert greedy_phases(bed) == ["Failed"] * 6


async def test_lookups_that_hang_leave_room_for_those_of_others(bed: Bed) -> None:
    answer, hanging = bed.parts.registry_client.resolve, asyncio.Event()

    async def resolve(name: ModelName) -> Any:
        if name == ModelName.parse("laya:multilingual"):
            await hanging.wait()
        return await answer(name)

    bed.parts.registry_client.resolve = resolve  # type: ignore[method-assign]  # a registry that lies
    for number in range(20):
        bed.declare(f"g{number}", namespace=GREEDY, model="laya:multilingual")
    await bed.run_until(lambda: bed.parts.background.count(RESOLVE_TASKS) == 20)

    bed.declare()
    await bed.run_until(lambda: bed.status.phase == "Ready")
    assert bed.parts.background.count(RESOLVE_TASKS) == 20
    hanging.set()


async def test_who_waits_for_whom_is_a_metric(idle_bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed = idle_bed
    monkeypatch.setitem(main._TASK_LIMITS, EVALUATION_TASKS, 4)
    bed.options = replace(bed.options, controller=replace(bed.options.controller, max_concurrent_rollouts=5))
    bed.start()
    bed.kubelet.adjust = never_decides
    put_dataset(bed, GREEDY)
    for number in range(6):
        bed.declare(f"g{number}", namespace=GREEDY, rollout={"evaluation": GATE})
    await bed.settle()
    await bed.advance(100)

    def sample(metric: str, work: str) -> float | None:
        labels = {"work": work, "namespace": GREEDY}
        return bed.parts.registry.get_sample_value(f"decisionmodel_work_{metric}", labels)

    shown = {metric: (sample(metric, "evaluate"), sample(metric, "rollout")) for metric in ("running", "waiting")}
    assert shown == {"running": (3, 5), "waiting": (2, 1)}
    assert 100 <= (sample("waiting_seconds", "evaluate") or 0) < 101
    assert 100 <= (sample("waiting_seconds", "rollout") or 0) < 101
    assert sample("waiting", "resolve") is None, "who neither waits nor holds has no series"

"""DecisionModels that an earlier version of the API let in, larger than anybody's honest one."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from api.decisionmodel import DecisionModel
from reconciler.controller.watched import CLAIMS, DEPLOYMENTS, PODS
from tests.fakes.json_copy import json_copy
from tests.reconciler.controller.bed import Bed

pytestmark = pytest.mark.anyio


def affinity(terms: int) -> dict[str, Any]:
    preferred = [
        {
            "weight": 1,
            "podAffinityTerm": {
                "topologyKey": "topology.kubernetes.io/zone",
                "labelSelector": {"matchLabels": {"app": f"neighbour-{number}"}},
            },
        }
        for number in range(terms)
    ]
    return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


HUGE = affinity(10_000)
"""Some 1.2 MiB of JSON."""


async def test_large_models_keep_nobody_else_waiting(idle_bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the product does is timed: the fake API server writes its JSON in the same process."""
    bed = idle_bed
    for number in range(10):
        bed.declare(f"large-{number}", scheduling=HUGE)
    bed.declare("router")
    validated: list[float] = []
    validate = DecisionModel.model_validate

    def timed(value: Any, **options: Any) -> DecisionModel:
        started = time.thread_time()
        try:
            return validate(value, **options)
        finally:
            validated.append(time.thread_time() - started)

    monkeypatch.setattr(DecisionModel, "model_validate", timed)
    bed.start()
    started = time.thread_time()
    await bed.settle()

    assert bed.status.phase == "Ready"
    assert max(validated) < 0.1
    assert time.thread_time() - started < 30
    for number in range(10):
        found = bed.server.object("decisionmodel.io/v1alpha1", "decisionmodels", "default", f"large-{number}")
        assert found is not None
        reasons = {each["type"]: (each["status"], each["reason"]) for each in found["status"]["conditions"]}
        assert reasons == {"Ready": ("False", "ObjectTooLarge"), "Resolved": ("False", "ObjectTooLarge")}
        assert found["status"]["phase"] == "Failed"
    assert all("spec" not in each or not each["spec"] for each in bed.parts.watched.models if "oversize" in each)


async def test_what_serves_is_left_alone_while_its_model_is_too_large(bed: Bed) -> None:
    revision = await bed.rolled_out()
    performed = len(bed.driver.performed)
    bed.declare(scheduling=HUGE)
    await bed.settle()

    assert bed.condition("Degraded")[:2] == ("True", "ObjectTooLarge")
    assert "spec of the object exceeds 5000 values" in bed.condition("Degraded")[2]
    assert bed.condition("Ready")[0] == "True"
    assert bed.selected == revision
    assert bed.events.count("ObjectTooLarge") == 1
    assert bed.parts.queue.next_due() is None, "only a change can help"

    assert len(bed.driver.performed) == performed

    await bed.restart()
    assert bed.driver.performed == []
    assert bed.events.count("ObjectTooLarge") == 1

    bed.declare()
    await bed.settle()
    assert bed.condition("Degraded") == ("", "", "")
    assert bed.condition("Resolved")[0] == "True"
    assert bed.selected == revision


async def test_a_server_that_refuses_the_status_leaves_it_to_the_event(bed: Bed) -> None:
    bed.server.fail(422, matches=lambda request: request.path.endswith("/status"), times=100)
    bed.declare(scheduling=HUGE)
    await bed.settle()
    assert bed.events == ["ObjectTooLarge"]
    assert bed.parts.queue.next_due() is None


@pytest.mark.parametrize("resource", [PODS, CLAIMS], ids=lambda each: each.kind)
async def test_somebody_s_large_object_under_our_label_changes_nothing(bed: Bed, resource: Any) -> None:
    revision = await bed.rolled_out()
    metadata = {"name": "large", "namespace": "default", "labels": {"decisionmodel.io/name": "router"}}
    obj = {"kind": resource.kind, "metadata": metadata, "spec": HUGE}
    bed.server.put(resource.api_version, resource.plural, obj)
    await bed.rolled_out(scheduling={"nodeSelector": {"disk": "ssd"}})
    assert bed.selected != revision


async def test_a_model_whose_own_deployment_is_too_large_is_left_alone(bed: Bed) -> None:
    revision = await bed.rolled_out()
    deployment = json_copy(bed.get(DEPLOYMENTS, f"router-{revision}"))
    deployment["spec"]["template"]["spec"] |= HUGE
    bed.server.put(DEPLOYMENTS.api_version, DEPLOYMENTS.plural, deployment)
    performed = len(bed.driver.performed)
    await bed.settle()
    assert bed.condition("Degraded")[:2] == ("True", "ObjectTooLarge")
    assert f"Deployment router-{revision} exceeds" in bed.condition("Degraded")[2]
    assert len(bed.driver.performed) == performed


async def test_a_steady_model_is_validated_once(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    await bed.rolled_out()
    await bed.advance(300)
    validated: list[Any] = []
    validate = DecisionModel.model_validate

    def noted(value: Any) -> DecisionModel:
        validated.append(value)
        return validate(value)

    monkeypatch.setattr(DecisionModel, "model_validate", noted)
    for _ in range(5):
        bed.parts.queue.add(next(iter(bed.parts.reconciler._known)))
        await bed.settle()
        await asyncio.sleep(0)
    assert validated == []

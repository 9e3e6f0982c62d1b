"""A cluster that version 0.3 of the decision-model-operator left behind: what serves is taken over, never restarted."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from api.keys import API_VERSION, PLURAL
from components.identity import legacy_hash
from reconciler.controller.revisions import identity
from reconciler.controller.watched import CLAIMS, DEPLOYMENTS, JOBS
from tests.reconciler.controller.bed import KEY, Bed, Object

pytestmark = pytest.mark.anyio


def renamed(value: Any, names: dict[str, str]) -> Any:
    """The same JSON with every occurrence of the old names replaced."""
    if isinstance(value, dict):
        return {key: renamed(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each, names) for each in value]
    if isinstance(value, str):
        for old, new in names.items():
            value = value.replace(old, new)
    return value


async def left_by_0_3(bed: Bed) -> str:
    """Make of a model that is Ready what version 0.3 would have made of it; return its revision."""
    revision = await bed.rolled_out()
    await bed.kill()
    stable = bed.status.stable_revision
    assert stable is not None
    legacy = legacy_hash(identity(stable))
    names = {
        f"router-store-{revision}": "router-store",
        f"router-pf-{revision}": f"router-prefetch-{legacy}",
        revision: legacy,
    }
    resources = (CLAIMS, JOBS, DEPLOYMENTS)
    for obj in (obj for resource in resources for obj in bed.objects(resource)):
        # Objects of their own: deleting the originals must not collect them.
        names[obj["metadata"]["uid"]] = f"{obj['metadata']['uid']}-legacy"
    for resource in resources:
        for obj in bed.objects(resource):
            bed.server.put(resource.api_version, resource.plural, as_of_0_3(renamed(deepcopy(obj), names)))
    for resource in resources:
        for obj in bed.objects(resource):
            if revision in obj["metadata"]["name"]:
                bed.remove(resource, obj["metadata"]["name"])
    bed.kubelet.has_stored("router-store", stable.digest)
    await bed.kubelet.sync()
    service = bed.server.object("v1", "services", *KEY)
    bed.server.put("v1", "services", renamed(deepcopy(service), names))
    model = bed.server.object(API_VERSION, PLURAL, *KEY)
    assert model is not None
    record = {"hash": legacy, "engine": "ollaya", "model": "laya:en", "digest": stable.digest, "device": "cpu"}
    bed.server.put(API_VERSION, PLURAL, {**model, "status": {"phase": "Ready", "stableRevision": record}})
    bed.driver.states.clear()
    return legacy


def as_of_0_3(obj: Object) -> Object:
    """Without what that version did not render, and with what nobody remembers."""
    obj["metadata"].get("annotations", {}).pop("pulumi.com/patchForce", None)
    if obj["kind"] == "Deployment":
        container = obj["spec"]["template"]["spec"]["containers"][0]
        known = [variable for variable in container["env"] if variable["name"] != "OLLAYA_KEEP_ALIVE"]
        container["env"] = [*known, {"name": "OLLAYA_FORGOTTEN", "value": "1"}]
        container["livenessProbe"]["periodSeconds"] = 30
    return obj


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

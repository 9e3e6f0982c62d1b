"""What the watch cache keeps of objects that anybody may have made."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from api.bounds import MOST_TEXT, MOST_VALUES
from api.keys import POD_SETTINGS_ANNOTATION
from api.pods import PodSettings, PullSecret
from reconciler.controller.trimming import oversize_parts, trim, trim_owned_annotations
from reconciler.controller.watched import CHILD_RESOURCES, DECISION_MODELS, PODS, Watched
from reconciler.kernel.resources import ObjectKey, Resource
from tests.fakes.json_copy import json_copy

LABELS = {"decisionmodel.io/name": "router"}
METADATA = {"name": "router", "namespace": "default", "uid": "u", "resourceVersion": "7", "labels": LABELS}
OURS = {"decisionmodel.io/retry": "1", "pulumi.com/skipAwait": "true", "deployment.kubernetes.io/revision": "2"}
LARGE = [{"weight": number} for number in range(MOST_VALUES)]


def obj(**fields: Any) -> dict[str, Any]:
    metadata = {**METADATA, **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata, **fields}


def annotations_of(trimmed: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = trimmed["metadata"].get("annotations", {})
    return found


def test_what_nobody_reads_goes() -> None:
    unread = {"managedFields": [{}], "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", **OURS}}
    assert trim(obj(metadata=unread, spec={"a": 1})) == obj(metadata={"annotations": OURS}, spec={"a": 1})


def test_other_people_s_annotations_stay_while_they_are_few() -> None:
    assert annotations_of(trim(obj(metadata={"annotations": {"team.example/owner": "a", **OURS}}))).keys() > OURS.keys()
    many = {f"team.example/{number}": "x" * 1000 for number in range(200)}
    assert annotations_of(trim(obj(metadata={"annotations": {**many, **OURS}}))) == OURS
    long = {"decisionmodel.io/retry": "x" * 200_000}
    assert annotations_of(trim(obj(metadata={"annotations": {**OURS, **long}}))).keys() == OURS.keys() - long.keys()


def test_of_pods_and_models_only_our_own_annotations_are_kept() -> None:
    foreign = {"team.example/owner": "a", "notdecisionmodel.io/x": "b", "decisionmodel.io.example/x": "c"}
    kept = annotations_of(trim_owned_annotations(obj(metadata={"annotations": {**foreign, **OURS}})))
    assert kept == {"decisionmodel.io/retry": "1"}


@pytest.mark.parametrize("part", ["spec", "status", "data", "extra"])
@pytest.mark.parametrize("large", [LARGE, {"x": "x" * (MOST_TEXT + 1)}], ids=["values", "text"])
def test_a_part_that_is_too_large_is_left_out_and_named(part: str, large: Any) -> None:
    trimmed = trim(obj(**{"other": {"a": 1}, part: large}))
    assert oversize_parts(trimmed) == (part,)
    assert trimmed[part] == {}
    assert trimmed["metadata"] == METADATA
    assert trimmed["other"] == {"a": 1}
    assert trim(json_copy(trimmed)) == trimmed


@pytest.mark.parametrize("field", ["labels", "ownerReferences", "finalizers", "unheard-of"])
def test_of_metadata_that_is_too_large_the_identity_is_kept(field: str) -> None:
    trimmed = trim(obj(metadata={field: LARGE}, spec={}))
    assert oversize_parts(trimmed) == ("metadata",)
    assert trimmed["metadata"] == {key: value for key, value in METADATA.items() if key != "labels"}


@pytest.mark.parametrize("resource", [DECISION_MODELS, *CHILD_RESOURCES], ids=lambda each: each.kind)
def test_every_watched_kind_is_trimmed(resource: Resource) -> None:
    watched = Watched()
    store = watched.models if resource is DECISION_MODELS else watched.children[resource]
    kept = store.trim(obj(metadata={"managedFields": [{}]}, spec=LARGE))
    assert oversize_parts(kept) == ("spec",)
    store.upsert_newer(obj(metadata={"managedFields": [{}]}, spec=LARGE))
    assert list(store) == [kept], "what our own writes return is trimmed as well"


def test_an_oversize_child_is_nobody_s_evidence() -> None:
    watched = Watched()
    watched.children[PODS].upsert(trim(obj(spec=LARGE)))
    key = ObjectKey("default", "router")
    assert watched.children_of(key).pods == ()
    assert len(watched.oversize_children_of(key)) == 1


def test_trimming_an_object_at_its_bound_is_quick() -> None:
    """Each change of each watched object pays for it."""

    async def slowest() -> float:
        clock = asyncio.get_running_loop().time
        taken = []
        for _ in range(5):
            fresh = obj(spec=[{"a": "x" * 100}] * (MOST_VALUES // 2 - 10))
            started = clock()
            trim(fresh)
            taken.append(clock() - started)
        return min(taken)

    assert asyncio.run(slowest()) < 0.02


def test_the_record_of_what_pods_get_besides_is_kept_however_much_that_is() -> None:
    key = "k" * 311
    pods = PodSettings(
        labels={f"{key}{index:02}": "v" * 63 for index in range(32)},
        annotations={f"{key}{index:02}": '"' * 1024 for index in range(32)},
        image_pull_secrets=tuple(PullSecret(name=f"{'n' * 251}{index:02}") for index in range(16)),
    )
    record = json.dumps(pods.dump())
    kept = trim({"metadata": {"name": "d", "annotations": {POD_SETTINGS_ANNOTATION: record, "other/x": "y" * 2000}}})
    assert kept["metadata"]["annotations"] == {POD_SETTINGS_ANNOTATION: record}

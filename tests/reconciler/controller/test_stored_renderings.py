"""What an earlier version left in clusters is taken over as it is: nothing rolls, and nothing is made again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import pytest

from components.desired import JsonObject, is_shareable
from components.drift import Drift, find_drift
from components.manifests import Manifest, render
from reconciler.controller.observation import Children
from reconciler.controller.rendering import desired_stack
from reconciler.controller.revisions import ChosenImage, choose_image, resolved
from tests.reconciler.controller.stored_renderings import Rendering, plan_of, read, settings_of, surroundings_of

ALLOWED: Final[dict[str, str]] = {
    "PodDisruptionBudget Unexpected": "of Pods that share a node it lets a drain take none, so it goes",
}
"""Patterns of what may differ, as `told` spells it, with the reason: metadata of objects, and budgets that go. Neither
rolls Pods. A budget is still there where no two Pods have to share a node."""

RENDERINGS = read()
each_rendering = pytest.mark.parametrize("stored", RENDERINGS, ids=lambda stored: stored.name)


def children(stored: Rendering) -> Children:
    """The live objects, as the watch cache has them."""
    kinds = {
        "claims": "PersistentVolumeClaim",
        "jobs": "Job",
        "deployments": "Deployment",
        "budgets": "PodDisruptionBudget",
        "services": "Service",
    }
    return Children(
        **{field: tuple(obj for obj in stored.objects if obj["kind"] == kind) for field, kind in kinds.items()}
    )


def rendered(stored: Rendering) -> tuple[Manifest, ...]:
    """What is rendered today for the model that serves, beside its live objects."""
    around = surroundings_of(stored.name, stored.model, stored.revision, children(stored))
    return render(desired_stack(stored.model, plan_of(stored.model, stored.revision), around))


def templates(objects: Iterable[JsonObject]) -> list[JsonObject]:
    return [obj["spec"]["template"] for obj in objects if obj["kind"] == "Deployment"]


def told(drift: Drift) -> str:
    return f"{drift.kind} {drift.path or drift.cause}"


def test_what_may_differ_rolls_nothing() -> None:
    assert all(re.match(r"\w+ metadata\\?\.|PodDisruptionBudget Unexpected$", pattern) for pattern in ALLOWED)


@each_rendering
def test_the_spec_still_asks_for_the_revision_that_serves(stored: Rendering) -> None:
    settings, spec, status = settings_of(stored.name), stored.model.spec, stored.model.status
    image = choose_image(spec, stored.revision, settings)
    assert isinstance(image, ChosenImage)
    unknown = status.model_copy(update={"stable_revision": None})

    assert resolved(spec, unknown, stored.revision.digest, image, settings).revision.hash == stored.revision.hash
    assert resolved(spec, status, stored.revision.digest, image, settings).revision == stored.revision


@each_rendering
def test_live_objects_are_left_as_they_are(stored: Rendering) -> None:
    differences = {told(each) for each in find_drift(rendered(stored), stored.objects, stored.model.metadata.uid)}

    assert not {each for each in differences if not any(re.fullmatch(pattern, each) for pattern in ALLOWED)}


@each_rendering
def test_the_engine_is_asked_for_what_runs(stored: Rendering) -> None:
    """Whatever makes it run: a field that it applies beside another change rolls Pods all the same."""
    live = {(obj["kind"], obj["metadata"]["name"]): obj["spec"] for obj in stored.objects}
    desired = {manifest.key: manifest.object["spec"] for manifest in rendered(stored)}

    # What a Job is to do is decided when it is made: the engine ignores changes of it.
    assert {key: spec for key, spec in desired.items() if key.kind != "Job"} == {
        key: spec for key, spec in live.items() if key in desired and key[0] != "Job"
    }
    assert {kind for kind, _ in live.keys() - desired.keys()} <= {"PodDisruptionBudget"}


@each_rendering
def test_a_budget_stays_where_pods_need_not_share_a_node(stored: Rendering) -> None:
    stays = stored.model.spec.replicas > 1 and is_shareable(stored.model.spec.cache.effective_access_modes)
    assert any(manifest.kind == "PodDisruptionBudget" for manifest in rendered(stored)) is stays


@each_rendering
def test_another_number_of_replicas_rolls_nothing(stored: Rendering) -> None:
    spec = stored.model.spec
    scaled = replace(
        stored, model=stored.model.model_copy(update={"spec": spec.model_copy(update={"replicas": spec.replicas + 1})})
    )

    assert templates(manifest.object for manifest in rendered(scaled)) == templates(stored.objects)


def test_everything_that_decides_about_a_rendering_is_there() -> None:
    found: dict[str, set[Any]] = {
        "device": {each.model.spec.device for each in RENDERINGS},
        "modes": {each.model.spec.cache.effective_access_modes for each in RENDERINGS},
        "replicas": {min(each.model.spec.replicas, 2) for each in RENDERINGS},
        "kinds": {obj["kind"] for each in RENDERINGS for obj in each.objects},
    }

    assert {name: len(values) for name, values in found.items()} == {
        "device": 2,
        "modes": 3,
        "replicas": 2,
        "kinds": 5,
    }

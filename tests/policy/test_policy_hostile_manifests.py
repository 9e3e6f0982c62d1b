"""No manifest makes a rule fail: whatever stands in one is judged or passed over."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policy import check, read_configuration
from policy.navigation import existing, rendered
from tests.policy.manifests import model, objects

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    leaves | st.sampled_from(["DecisionModel", "Deployment", "decisionmodel.io/v1alpha1", "1e99", "5Gi", "cuda"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ORDINARY = [model(image="nginx", resources={"limits": {"memory": "1Gi"}}, cache={"size": "1Gi"}), *objects()]
STRICT = read_configuration({"rules": {"evaluation-required": {"environments": ["e"]}}}, "e")


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


PLACES = [(index, place) for index, manifest in enumerate(ORDINARY) for place in places(manifest) if place]


@st.composite
def damaged(draw: st.DrawFn) -> list[Any]:
    """Ordinary manifests in which up to three places hold something else, of any type."""
    manifests: list[Any] = json.loads(json.dumps(ORDINARY))
    for index, place in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)):
        if existing(manifests[index], place) != place:
            continue
        inner = manifests[index]
        for part in place[:-1]:
            inner = inner[part]
        inner[place[-1]] = draw(values)
    return manifests


def judged(manifests: list[Any]) -> None:
    for finding in check(manifests, STRICT):
        assert finding.message
        assert isinstance(finding.where, str)
        # A program that shows the finding can rely on the path, as far as the manifest goes.
        assert len(existing(manifests[finding.position], finding.path)) <= len(finding.path)


@given(st.lists(values, max_size=3))
def test_any_json_is_judged(manifests: list[Any]) -> None:
    judged(manifests)


@given(damaged())
def test_ordinary_manifests_with_anything_in_any_place_are_judged(manifests: list[Any]) -> None:
    judged(manifests)


@settings(max_examples=30)
@given(values)
def test_paths_are_followed_as_far_as_they_exist(value: Any) -> None:
    for place in places(value):
        assert existing(value, place) == place
        assert existing(value, (*place, "\0 no such key")) == place


def test_paths_read_as_people_write_them() -> None:
    assert rendered(("spec", "containers", 0, "image")) == "spec.containers[0].image"
    assert rendered(()) == ""

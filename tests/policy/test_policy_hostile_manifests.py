"""No manifest makes a rule fail: whatever stands in one is judged or passed over."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policy import check, read_configuration
from policy.navigation import existing, rendered
from tests.policy.damage import damaged, places, values

STRICT = read_configuration({"rules": {"evaluation-required": {"environments": ["e"]}}}, "e")


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

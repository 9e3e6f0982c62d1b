"""Arbitrary JSON, and ordinary manifests with arbitrary JSON in any place: strategies for tests of hostile input."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from policy.navigation import existing
from tests.policy.manifests import model, objects

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    leaves | st.sampled_from(["DecisionModel", "Deployment", "decisionmodel.io/v1alpha1", "1e99", "5Gi", "cuda"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ORDINARY = [model(image="nginx", resources={"limits": {"memory": "1Gi"}}, cache={"size": "1Gi"}), *objects()]


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


@st.composite
def damaged(draw: st.DrawFn, *ordinary: Any) -> list[Any]:
    """The given manifests, or a model with its objects, where up to three places hold something else, of any type."""
    manifests: list[Any] = json.loads(json.dumps(ordinary or ORDINARY))
    candidates = [(index, place) for index, each in enumerate(manifests) for place in places(each) if place]
    for index, place in draw(st.lists(st.sampled_from(candidates), min_size=1, max_size=3)):
        if existing(manifests[index], place) != place:
            continue
        inner = manifests[index]
        for part in place[:-1]:
            inner = inner[part]
        inner[place[-1]] = draw(values)
    return manifests

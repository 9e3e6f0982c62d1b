"""When a declared value is contained in a live one."""

from __future__ import annotations

from typing import Any

import pytest

from components.subset import differing_paths


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": {"b": "x"}}, {"a": {"b": "x", "c": None}}),
        # Lists of named items are compared by name, in any order and with additions.
        ([{"name": "a", "value": "1"}], [{"name": "b"}, {"name": "a", "value": "1", "added": True}]),
        ([{"mountPath": "/a", "name": "v"}], [{"mountPath": "/b", "name": "v"}, {"mountPath": "/a", "name": "v"}]),
        # Others are one value, whose items may still have defaults added.
        ([{"key": "a"}], [{"key": "a", "operator": "Equal"}]),
        (["x", "y"], ["x", "y"]),
        # Quantities are numbers.
        ({"limits": {"cpu": "1000m", "memory": "1Gi"}}, {"limits": {"cpu": "1", "memory": "1024Mi"}}),
        ({"requests": {"nvidia.com/gpu": 1}}, {"requests": {"nvidia.com/gpu": "1", "cpu": "1"}}),
        # What is empty is dropped by the API server.
        ({"a": "", "b": [], "c": None}, {}),
        ({"nodeSelector": {}, "matchLabels": {}, "limits": {}}, {}),
    ],
    ids=str,
)
def test_contained(desired: Any, live: Any) -> None:
    assert list(differing_paths(desired, live)) == []


@pytest.mark.parametrize(
    ("desired", "live", "paths"),
    [
        ({"a": 1}, {"a": 2}, ["a"]),
        ({"a": True}, {"a": 1}, ["a"]),
        ({"a": False}, {}, ["a"]),
        ({"a": 0}, {}, ["a"]),
        ({"a": {"b": 1, "c": 2}}, {"a": {}}, ["a.b", "a.c"]),
        ({"a": {"b": 1}}, {"a": "b"}, ["a"]),
        ({"a": {"b": 1}}, {"a": None}, ["a"]),
        ({"emptyDir": {}}, {"hostPath": {"path": "/"}}, ["emptyDir"]),
        ({"labels": {"decisionmodel.io/name": "a"}}, {"labels": {}}, ["labels[decisionmodel.io/name]"]),
        ([{"name": "a"}, {"name": "b", "v": 1}], [{"name": "b", "v": 2}], ["[a]", "[b].v"]),
        ({"x": [{"name": "a"}]}, {"x": ["a"]}, ["x[a]"]),
        (["x", "y"], ["y", "x"], ["[0]", "[1]"]),
        ([{"key": "a"}], [{"key": "a"}, {"key": "b"}], [""]),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1001m"}}, ["limits.cpu"]),
        ({"limits": {"cpu": "1"}}, {"limits": {"memory": "1"}}, ["limits.cpu"]),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "many"}}, ["limits.cpu"]),
        # Elsewhere a text that looks like a quantity is a text.
        ({"value": "1000m"}, {"value": "1"}, ["value"]),
    ],
    ids=str,
)
def test_not_contained(desired: Any, live: Any, paths: list[str]) -> None:
    assert list(differing_paths(desired, live)) == paths

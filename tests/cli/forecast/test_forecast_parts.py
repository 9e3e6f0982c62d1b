"""The small parts of a forecast: changed fields, and what a manifest says about its download."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.forecast.download import download_bytes
from cli.forecast.fields import FieldChange, changed_fields

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def test_fields_are_named_as_people_write_them() -> None:
    before = {"replicas": 1, "scheduling": {"nodeSelector": {"example.com/pool": "a"}}, "list": [1]}
    after = {"replicas": 2, "scheduling": {"nodeSelector": {}}, "list": [1, 2], "device": "cuda"}
    assert list(changed_fields(before, after, "spec")) == [
        FieldChange("spec.device", None, "cuda"),
        FieldChange("spec.list", [1], [1, 2]),
        FieldChange("spec.replicas", 1, 2),
        FieldChange("spec.scheduling.nodeSelector[example.com/pool]", "a", None),
    ]


@given(value=JSON)
def test_equal_values_have_no_changed_fields(value: Any) -> None:
    assert list(changed_fields(value, json.loads(json.dumps(value)))) == []


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def manifest(*layers: tuple[str, Any]) -> bytes:
    return json.dumps({"layers": [{"digest": name, "size": size} for name, size in layers]}).encode()


def test_the_download_is_what_the_layers_of_the_right_manifest_add_up_to() -> None:
    right, other = manifest(("a", 10), ("b", 20), ("a", 10)), manifest(("a", 1))
    assert download_bytes(digest(right), [other, right]) == 30
    assert download_bytes(digest(right), [other]) is None


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[" * 100_000, manifest(("a", -1)), manifest(("a", "big")), b'{"layers": [1]}']
)
def test_a_manifest_that_says_nothing_leaves_the_download_unknown(content: bytes) -> None:
    assert download_bytes(digest(content), [content]) is None

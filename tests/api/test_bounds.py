"""Everything in a spec is bounded, for the API server and for Python alike, and so is the whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from api.bounds import MOST_TEXT, MOST_VALUES, is_too_large
from api.crd import load
from api.spec import DecisionModelSpec

Schema = dict[str, Any]
Path = tuple[str, ...]


def spec_schema() -> Schema:
    schema: Schema = load()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def nodes(schema: Schema, path: Path = ()) -> Iterator[tuple[Path, Schema]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, (*path, name))
    for keyword, step in (("items", "[]"), ("additionalProperties", "{}")):
        if keyword in schema:
            yield from nodes(schema[keyword], (*path, step))


def missing_bound(schema: Schema) -> str:
    """The keyword without which a value of this schema may have any size."""
    if "enum" in schema:
        return ""
    if "x-kubernetes-int-or-string" in schema or schema["type"] == "string":
        return "" if "maxLength" in schema else "maxLength"
    if schema["type"] == "array":
        return "" if "maxItems" in schema else "maxItems"
    return "maxProperties" if "additionalProperties" in schema and "maxProperties" not in schema else ""


def test_every_text_list_and_map_of_the_spec_is_bounded() -> None:
    unbounded = {".".join(path): missing for path, schema in nodes(spec_schema()) if (missing := missing_bound(schema))}
    assert unbounded == {}


BOUNDED = {
    ".".join(path): (path, schema)
    for path, schema in nodes(spec_schema())
    if {"maxLength", "maxItems", "maxProperties"} & schema.keys()
}


def beyond(schema: Schema) -> Any:
    """A value that only the bound forbids, as far as that can be told."""
    if "maxItems" in schema:
        return [{}] * (schema["maxItems"] + 1) if schema["items"].get("type") == "object" else ["x"] * 10_000
    if "maxProperties" in schema:
        return {f"k{number}": "1" for number in range(schema["maxProperties"] + 1)}
    return "1" * (schema["maxLength"] + 1)


def placed(path: Path, value: Any) -> Any:
    for step in reversed(path):
        value = [value] if step == "[]" else {"x" if step == "{}" else step: value}
    return value


@pytest.mark.parametrize("name", BOUNDED)
def test_python_refuses_what_the_api_server_refuses(name: str) -> None:
    path, schema = BOUNDED[name]
    with pytest.raises(ValidationError) as caught:
        DecisionModelSpec.model_validate({"model": "laya:en", **placed(path, beyond(schema))})
    where = [".".join(str(step) for step in error["loc"]) for error in caught.value.errors()]
    field = next(step for step in reversed(path) if step not in {"[]", "{}"})
    assert any(field in place for place in where), where


def nested(depth: int, width: int) -> Any:
    return "x" if depth == 0 else [nested(depth - 1, width) for _ in range(width)]


@pytest.mark.parametrize(
    ("value", "large"),
    [
        ({}, False),
        (["x"] * (MOST_VALUES - 1), False),
        (["x"] * MOST_VALUES, True),
        (nested(3, 10), False),
        (nested(4, 10), True),
        ("x" * MOST_TEXT, False),
        ("x" * (MOST_TEXT + 1), True),
        ({"x" * (MOST_TEXT + 1): 1}, True),
        ([{"x" * 1000: "x" * 1000}] * 300, True),
    ],
)
def test_an_object_is_too_large_beyond_its_values_or_its_text(value: Any, large: bool) -> None:
    assert is_too_large(value) is large


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def size(value: Any) -> tuple[int, int]:
    children = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    own = len(value) if isinstance(value, str) else sum(map(len, value)) if isinstance(value, dict) else 0
    below = [size(child) for child in children]
    return 1 + sum(each[0] for each in below), own + sum(each[1] for each in below)


@given(value=JSON, values=st.integers(1, 30), text=st.integers(0, 60))
def test_too_large_is_what_has_more_values_or_text_than_allowed(value: Any, values: int, text: int) -> None:
    counted, written = size(value)
    assert is_too_large(value, values=values, text=text) == (counted > values or written > text)

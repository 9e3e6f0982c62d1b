"""Everything in a spec is bounded, for the API server and for Python alike, and so is the whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from api.bounds import LONGEST_QUANTITY, MOST_TEXT, MOST_VALUES, is_too_large
from api.crd import load
from api.spec import DecisionModelSpec
from reconciler.controller.trimming import _LONGEST_ANNOTATION, _MOST_ANNOTATIONS
from reconciler.http_client import HEADERS_LIMIT
from reconciler.rollout.retry import _LONGEST_TOKEN

Schema = dict[str, Any]
Place = tuple[str, ...]


def spec_schema() -> Schema:
    schema: Schema = load()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def nodes(schema: Schema, path: Place = ()) -> Iterator[tuple[Place, Schema]]:
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


WORDS = ("maxLength", "maxItems", "maxProperties")
BOUNDED = {".".join(path): (path, schema) for path, schema in nodes(spec_schema()) if {*WORDS} & schema.keys()}


def beyond(schema: Schema) -> Any:
    """A value that only the bound forbids, as far as that can be told."""
    if "maxItems" in schema:
        return [{}] * (schema["maxItems"] + 1) if schema["items"].get("type") == "object" else ["x"] * 10_000
    if "maxProperties" in schema:
        return {f"k{number}": "1" for number in range(schema["maxProperties"] + 1)}
    return "1" * (schema["maxLength"] + 1)


def placed(path: Place, value: Any) -> Any:
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


def test_the_documented_bounds_are_those_of_the_schema() -> None:
    text = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text(encoding="utf-8")
    section = text.partition("## How large a DecisionModel may be")[2].partition("\n## ")[0]
    stated = {int(number) for number in re.findall(r"\b[0-9]{2,}\b", section)}
    bounds = {schema[word] for _, schema in BOUNDED.values() for word in WORDS if word in schema}
    # Fields whose pattern bounds them anyway, and those with a bound since they were made, are not repeated there.
    assert {256, 128, 16, 1024, 253, 512, LONGEST_QUANTITY} <= bounds & stated
    assert {MOST_VALUES, MOST_TEXT, _MOST_ANNOTATIONS, _LONGEST_ANNOTATION, _LONGEST_TOKEN, HEADERS_LIMIT} <= stated

"""The converter says what it cannot express instead of leaving it out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from api.errors import UnsupportedSchemaError
from api.structural import structural_schema


class Leaf(BaseModel):
    """A leaf."""

    size: Annotated[int, Field(ge=1)] = 3


class Tree(BaseModel):
    """A tree."""

    leaf: Leaf | None = Field(default=None, description="The only leaf.")
    names: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)


class Endless(BaseModel):
    """Contains itself."""

    inner: Endless | None = None


def test_references_are_inlined_and_nulls_disappear() -> None:
    assert structural_schema(Tree, defaults=True) == {
        "type": "object",
        "description": "A tree.",
        "properties": {
            "leaf": {
                "type": "object",
                "description": "The only leaf.",
                "properties": {"size": {"type": "integer", "minimum": 1, "default": 3}},
            },
            "names": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }


def test_defaults_can_be_left_to_the_reader() -> None:
    schema = structural_schema(Tree, defaults=False)

    assert schema["properties"]["leaf"]["properties"]["size"] == {"type": "integer", "minimum": 1}


def test_recursion_is_refused() -> None:
    with pytest.raises(UnsupportedSchemaError, match=r"Endless\.inner.*contains itself"):
        structural_schema(Endless, defaults=True)


@pytest.mark.parametrize(
    ("annotation", "cause"),
    [
        (int | str, "union"),
        (int | str | None, "union"),
        (Any, "needs a type"),
        (list[Any], "needs a type"),
        (list, "needs a type"),
        (dict, "neither the object's fields nor"),
        (Literal["one"], "has no const"),
        (Annotated[float, Field(gt=0)], "has no exclusiveMinimum"),
        (set[int], "has no uniqueItems"),
        (tuple[int, str], "has no prefixItems"),
    ],
)
def test_what_has_no_structural_form_is_refused(annotation: Any, cause: str) -> None:
    model = type("Model", (BaseModel,), {"__annotations__": {"field": annotation}})

    with pytest.raises(UnsupportedSchemaError, match=rf"Model\.field.*{cause}"):
        structural_schema(model, defaults=True)

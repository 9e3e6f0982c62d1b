"""What the fields of a model mean, from the texts below them.

Pydantic reads them as well, but when the class is made: that was a sixth of every start of `dmctl`, and only a schema
tells them.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from itertools import pairwise

from pydantic import BaseModel


def field_descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the text below each field that has one, those of the classes it extends included."""
    described: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls is not BaseModel:
            described |= _texts_below(cls)
    return {name: text for name, text in described.items() if name in model.model_fields}


@functools.cache
def _texts_below(cls: type) -> dict[str, str]:
    source = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    body = next(definition.body for definition in source.body if isinstance(definition, ast.ClassDef))
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }

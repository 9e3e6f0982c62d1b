"""docs/environments.md lists every key of an environment, with the default that the code gives it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from components.configuration import PlatformConfiguration
from components.configuration.section import Section

DOCUMENT = (Path(__file__).parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([a-zA-Z0-9.]+)` \| (.+?) \|", DOCUMENT, re.MULTILINE))
CHART_VALUES = re.findall(
    r"^\| [^`|]+ \| (.+) \|$", DOCUMENT.partition("## From the operator's chart")[2], re.MULTILINE
)


def section_of(field: FieldInfo) -> type[Section] | None:
    """The section that a key opens, if it opens one."""
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, Section):
            return kind
    return None


def keys(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key that holds a value, with its dots."""
    for field in section.model_fields.values():
        inner = section_of(field)
        if inner is None:
            yield f"{prefix}{field.alias}", field
        else:
            yield from keys(inner, f"{prefix}{field.alias}.")


KEYS = dict(keys(PlatformConfiguration))


def test_every_key_is_documented_and_no_other() -> None:
    assert sorted(ROWS) == sorted(KEYS)


@pytest.mark.parametrize("key", KEYS)
def test_defaults_are_those_of_the_code(key: str) -> None:
    """An empty default is none, or the reconciler's own, which is described; any other is written as it is."""
    default = KEYS[key].get_default(call_default_factory=True)
    documented = ROWS[key]
    if default is PydanticUndefined:
        assert documented == "required"
    elif _empty(default):
        assert key.startswith("manager.") or not documented.startswith("`") or documented == "`manager.watchNamespaces`"
    else:
        assert documented == f"`{_written(default)}`"


def _empty(default: Any) -> bool:
    return default in (None, "", ()) or default == {} or (isinstance(default, BaseModel) and default == type(default)())


def _written(default: Any) -> str:
    if isinstance(default, str):
        return default
    return json.dumps(dict(default) if isinstance(default, Mapping) else default, separators=(",", ":"))


def test_the_charts_values_lead_to_keys_that_exist() -> None:
    sections = {key.rpartition(".")[0] for key in KEYS}
    assert CHART_VALUES
    for answer in CHART_VALUES:
        for key in re.findall(r"`([a-zA-Z.]+)`", answer):
            assert key in KEYS or key in sections or key == "caSecret"

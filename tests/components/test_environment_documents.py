"""docs/environments.md lists every key of an environment, with the default that the code gives it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from tests.components.keys import KEYS

DOCUMENT = (Path(__file__).parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([a-zA-Z0-9.]+)` \| (.+?) \|", DOCUMENT, re.MULTILINE))
CHART_VALUES = re.findall(
    r"^\| [^`|]+ \| (.+) \|$", DOCUMENT.partition("## From the operator's chart")[2], re.MULTILINE
)


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

"""Copies of Kubernetes objects, which fakes make by the thousand."""

from __future__ import annotations

from typing import TypeVar

import msgspec

Json = TypeVar("Json")


def json_copy(value: Json) -> Json:
    """Copy what JSON can hold, all the way down; `copy.deepcopy`, which copies anything, takes fifteen times longer."""
    copied: Json = msgspec.to_builtins(value)
    return copied

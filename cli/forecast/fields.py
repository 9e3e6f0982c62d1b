"""Which declared fields a change touches. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from components.field_paths import joined


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field with its values as JSON; None where it is not set, and so has its default."""

    path: str
    before: Any
    after: Any


def changed_fields(before: Any, after: Any, path: str = "") -> Iterator[FieldChange]:
    """Yield the fields that differ between two JSON values; a list is one value."""
    if not isinstance(before, Mapping | None) or not isinstance(after, Mapping | None):
        if before != after:
            yield FieldChange(path, before, after)
        return
    left, right = before or {}, after or {}
    for key in sorted({*left, *right}):
        yield from changed_fields(left.get(key), right.get(key), joined(path, str(key)))

"""How large a declaration may be: far above any honest use, and low enough that nobody's object is a burden to others.

Every text, list and map of the spec has a bound that the API server checks as well. A bound of each part is none of the
whole, which is `MOST_VALUES` and `MOST_TEXT`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

from pydantic import Field

_Item = TypeVar("_Item")

Text = Annotated[str, Field(max_length=1024)]
"""A text without a bound of its own. Labels have 317 characters at most, image references some 700."""

ObjectName = Annotated[str, Field(min_length=1, max_length=253)]
"""The name of an object, or of a key in one (RFC 1123 section 2.1, as Kubernetes applies it)."""

Listed = Annotated[tuple[_Item, ...], Field(max_length=256)]
"""A list without a bound of its own."""

Mapped = Annotated[dict[str, _Item], Field(max_length=128)]
"""A map without a bound of its own."""

LONGEST_QUANTITY: Final = 64
"""Characters of a quantity: more digits than any resource has."""

MOST_VALUES: Final = 5_000
"""Values in one object, maps and lists included. A spec that uses every field there is once has 150 or so."""

MOST_TEXT: Final = 1 << 19
"""Characters in one object, names of fields included; a status with its messages has some thousands."""


def is_too_large(value: Any, *, values: int = MOST_VALUES, text: int = MOST_TEXT) -> bool:
    """Whether there is more in a JSON value than an object may hold; no more is looked at than that."""
    remaining, pending = values, [value]
    while pending:
        current = pending.pop()
        remaining -= 1
        if isinstance(current, str):
            text -= len(current)
        elif isinstance(current, dict):
            text -= sum(map(len, current))
            pending.extend(current.values())
        elif isinstance(current, list):
            pending.extend(current)
        if text < 0 or remaining < len(pending):
            return True
    return False

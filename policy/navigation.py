"""Reading manifests that may hold anything: a value of the wrong type reads as absent, and nothing here raises.

Rules that demand something thereby fail closed: `securityContext: []` is a missing security context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

JsonObject = Mapping[str, Any]
Path = tuple[str | int, ...]
"""Where in a manifest something is: keys and list indices from its root."""


def mapping(value: Any) -> JsonObject:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: Any) -> Sequence[Any]:
    """Return `value` if it is a list, else an empty one."""
    return value if isinstance(value, list | tuple) else ()


def text(value: Any) -> str:
    """Return `value` if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def at(value: Any, *keys: str) -> Any:
    """Return what is found under `keys`, one object within the other; None where one of them is missing."""
    for key in keys:
        value = mapping(value).get(key)
    return value


def rendered(path: Path) -> str:
    """Return a path as people write it: `spec.containers[0].image`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def existing(value: Any, path: Path) -> Path:
    """Return as much of `path` as there is in `value`."""
    for depth, part in enumerate(path):
        match part:
            case str() if part in mapping(value):
                value = mapping(value)[part]
            case int() if 0 <= part < len(sequence(value)):
                value = sequence(value)[part]
            case _:
                return path[:depth]
    return path

"""Taking out of a live object what somebody added to a set of ours.

The engine only ever sees fields that it applied, so an added variable, container, label or selector key is removed by
the reconciler's own write (design rule of `components.drift`, cause `Added`).
"""

from __future__ import annotations

import copy
from typing import Any

from components.desired import JsonObject
from components.field_paths import steps


def without(live: JsonObject, paths: tuple[str, ...]) -> dict[str, Any]:
    """Return `live` without what `paths` point at; a path that leads nowhere changes nothing.

    Paths are those of `components.field_paths`; an item of a list is named by its `name`, or a mount by its path: a
    volume may be mounted more than once.
    """
    pruned = copy.deepcopy(dict(live))
    for path in paths:
        _remove(pruned, steps(path))
    return pruned


def _remove(value: Any, path: list[str]) -> None:
    *parents, last = path
    for step in parents:
        value = _child(value, step)
    if isinstance(value, dict):
        value.pop(last, None)
    elif isinstance(value, list):
        value[:] = [item for item in value if _key(item) != last]


def _child(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list):
        return next((item for item in value if _key(item) == step), None)
    return None


def _key(item: dict[str, Any]) -> Any:
    return item.get("mountPath", item.get("name"))

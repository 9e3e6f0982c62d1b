"""The part of server-side apply and merge patch that the fake API server understands.

Lists that Kubernetes merges by a key are merged by it (conditions by type, containers by name, ...); all others are
atomic. What a manager applied before and leaves out now is removed. Field ownership of others is not modelled: every
apply is forced.
"""

from typing import Any

from tests.fakes.json_copy import json_copy

_LIST_KEYS = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "ownerReferences": "uid",
}
_SETS = {"finalizers"}


def merge_patch(live: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396) and return the result."""
    if not isinstance(patch, dict):
        return json_copy(patch)
    result = dict(live) if isinstance(live, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def apply(live: dict[str, Any], before: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Merge `wanted` into `live`, removing what `before` (the same manager's last apply) held and `wanted` lacks."""
    result = {name: value for name, value in live.items() if name in wanted or name not in before}
    for name, value in wanted.items():
        result[name] = _apply_value(name, live.get(name), before.get(name), value)
    return result


def _apply_value(name: str, live: Any, before: Any, wanted: Any) -> Any:
    if isinstance(wanted, dict) and isinstance(live, dict):
        return apply(live, before if isinstance(before, dict) else {}, wanted)
    if isinstance(wanted, list) and isinstance(live, list):
        previous = before if isinstance(before, list) else []
        if name in _SETS:
            return [item for item in live if item not in previous or item in wanted] + [
                item for item in wanted if item not in live
            ]
        if name in _LIST_KEYS:
            return _apply_list(_LIST_KEYS[name], live, previous, wanted)
    return json_copy(wanted)


def _apply_list(key: str, live: list[Any], before: list[Any], wanted: list[Any]) -> list[Any]:
    by_key = {item[key]: item for item in live}
    previous = {item[key]: item for item in before}
    wanted_by_key = {item[key]: item for item in wanted}
    kept = [item for item in live if item[key] in wanted_by_key or item[key] not in previous]
    merged = [
        apply(item, previous.get(item[key], {}), wanted_by_key[item[key]]) if item[key] in wanted_by_key else item
        for item in kept
    ]
    return merged + [json_copy(item) for item in wanted if item[key] not in by_key]

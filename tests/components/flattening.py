"""Differences between lists of manifests, as lines that a person can read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tests.components.platforms import object_key


def changes(before: Iterable[dict[str, Any]], after: Iterable[dict[str, Any]]) -> list[str]:
    """What must go and what must come, sorted: whole objects, or single values of objects that stay.

    An entry of a list is known by its name, if it has one; what an unnamed list holds is compared without its order.
    """
    old, new = ({object_key(manifest): manifest for manifest in manifests} for manifests in (before, after))
    gone = [f"- {_called(key)}" for key in old.keys() - new.keys()]
    come = [f"+ {_called(key)}" for key in new.keys() - old.keys()]
    values = [line for key in old.keys() & new.keys() for line in _differences(_called(key), old[key], new[key])]
    return sorted(_shortened(line) for line in [*gone, *come, *values])


# What most values are part of, and what it is called for short.
_PARTS = {
    "Deployment ~-controller-manager spec.template.spec.containers[manager].": "manager ",
    "Deployment ~-controller-manager spec.template.spec.": "pod ",
    "spec.groups[decision-model-operator].rules": "",
}


def _shortened(line: str) -> str:
    for part, short in _PARTS.items():
        line = line.replace(part, short)
    return line


def _called(key: tuple[str, str | None, str]) -> str:
    kind, namespace, name = key
    short = name.replace("decision-model-operator", "~")
    return f"{kind} {short}" if namespace in {None, "decision-model-operator-system"} else f"{kind} {namespace}/{short}"


def _differences(name: str, old: Any, new: Any) -> Iterator[str]:
    before, after = set(_leaves(old)), set(_leaves(new))
    yield from (f"- {name} {leaf}" for leaf in before - after)
    yield from (f"+ {name} {leaf}" for leaf in after - before)


def _named(entry: Any, path: str) -> tuple[Any, str]:
    """Return an entry of a list without its name, which goes into its path."""
    for field in ("name", "alert"):
        if isinstance(entry, dict) and field in entry:
            rest = {key: value for key, value in entry.items() if key != field}
            return rest, f"{path}[{entry[field]}]"
    return entry, f"{path}[]"


def _leaves(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for entry in value:
            yield from _leaves(*_named(entry, path))
    else:
        yield f"{path}={json.dumps(value)}"

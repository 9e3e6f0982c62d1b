"""Whether a declared JSON value is contained in a live one, and where it is not.

Knows Kubernetes' conventions and no kind in particular: lists of named items are maps in disguise, quantities have
several spellings, and the API server drops what is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from api.errors import InvalidQuantityError
from api.quantity import parse_quantity
from components.field_paths import joined, keyed

_IDENTIFYING_FIELDS: Final = ("mountPath", "uid", "conditionType", "name")
"""What tells the items of a list apart, in order of precedence: the name of a mount is its volume's."""

_QUANTITY_MAPS: Final = ("limits", "requests")

_DROPPED_WHEN_EMPTY: Final = ("limits", "requests", "nodeSelector", "matchLabels", "labels", "annotations")
"""Maps that the API server does not keep empty. Elsewhere an empty object says something, as in `emptyDir: {}`."""


def differing_paths(desired: Any, live: Any, path: str = "") -> Iterator[str]:
    """Yield the path of every declared value that `live` does not have.

    Values that only `live` has are ignored, except in lists whose items have nothing to tell them apart: those are one
    value, and must have as many items in the same order.
    """
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        yield from _differing_fields(desired, live, path)
    elif isinstance(desired, list | tuple) and isinstance(live, list | tuple):
        yield from _differing_items(desired, live, path)
    elif not _equal(desired, live):
        yield path


def _differing_fields(desired: Mapping[str, Any], live: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in desired.items():
        inner = joined(path, key)
        if key not in live or live[key] is None:
            if not _dropped(key, value):
                yield inner
        elif key in _QUANTITY_MAPS and isinstance(value, Mapping) and isinstance(live[key], Mapping):
            yield from _differing_quantities(value, live[key], inner)
        else:
            yield from differing_paths(value, live[key], inner)


def _differing_quantities(desired: Mapping[str, Any], live: Mapping[str, Any], path: str) -> Iterator[str]:
    return (joined(path, key) for key, value in desired.items() if not same_quantity(value, live.get(key)))


def _differing_items(desired: Sequence[Any], live: Sequence[Any], path: str) -> Iterator[str]:
    if field := identifying_field(desired):
        found = {item.get(field): item for item in live if isinstance(item, Mapping)}
        for item in desired:
            yield from _differing_item(item, found.get(item[field]), keyed(path, item[field]))
    elif len(desired) != len(live):
        yield path
    else:
        for index, (item, counterpart) in enumerate(zip(desired, live, strict=True)):
            yield from differing_paths(item, counterpart, keyed(path, index))


def _differing_item(item: Any, counterpart: Any, path: str) -> Iterator[str]:
    return iter((path,)) if counterpart is None else differing_paths(item, counterpart, path)


def identifying_field(items: Sequence[Any]) -> str | None:
    """Return the field that tells the items of a list apart; None where the list is one value."""
    if not items or not all(isinstance(item, Mapping) for item in items):
        return None
    return next((field for field in _IDENTIFYING_FIELDS if all(field in item for item in items)), None)


def same_quantity(desired: Any, live: Any) -> bool:
    """Whether both stand for the same number; what is no quantity is compared as it is."""
    try:
        return parse_quantity(desired) == parse_quantity(live)
    except InvalidQuantityError:
        return bool(desired == live)


def _dropped(key: str, value: Any) -> bool:
    if value is None or value in ("", [], ()):
        return True
    return value == {} and key in _DROPPED_WHEN_EMPTY


def _equal(desired: Any, live: Any) -> bool:
    # In Python True is 1; in JSON it is not.
    return bool(desired == live) and isinstance(desired, bool) == isinstance(live, bool)

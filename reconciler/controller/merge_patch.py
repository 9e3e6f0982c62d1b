"""JSON merge patches (RFC 7396): the smallest patch that turns one object into another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch from `before` to `after`; empty when they are equal.

    Lists are replaced whole and removed keys become null, as the RFC prescribes. Neither object may hold nulls.
    """
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, wanted in after.items():
        present = before.get(key)
        if isinstance(wanted, Mapping) and isinstance(present, Mapping):
            nested = difference(present, wanted)
            if nested:
                patch[key] = nested
        elif key not in before or present != wanted:
            patch[key] = wanted
    return patch

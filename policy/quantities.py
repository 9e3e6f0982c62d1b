"""Quantities in manifests, where anything may stand in their place."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from typing import Any

from api.errors import InvalidQuantityError
from api.quantity import parse_quantity


def quantity(value: Any) -> Decimal | None:
    """Return the number that a quantity stands for; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return parse_quantity(value)
    except InvalidQuantityError:
        return None


def less(value: Any, than: str | Decimal) -> bool:
    """Whether `value` is a quantity below another; never for what is no quantity."""
    number, bound = quantity(value), than if isinstance(than, Decimal) else quantity(than)
    return number is not None and bound is not None and number < bound


def mebibytes(amount: Decimal) -> str:
    """Return an amount of bytes as a quantity, rounded up."""
    return f"{(amount / 1024**2).to_integral_value(ROUND_CEILING)}Mi"

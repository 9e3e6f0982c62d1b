"""Kubernetes quantities: `500m`, `1.5`, `4Gi`, `1e3`.

The user's spelling is kept wherever a quantity is stored or rendered; it is parsed only to be compared or added up.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from api.bounds import LONGEST_QUANTITY
from api.errors import InvalidQuantityError

# The exponent is bounded so that a hostile text cannot make a number that takes minutes to print.
QUANTITY_PATTERN = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$"

_PARTS = re.compile(r"(?P<number>[+-]?[0-9]*\.?[0-9]*)(?P<suffix>.*)", re.ASCII)
_QUANTITY = re.compile(QUANTITY_PATTERN, re.ASCII)

_MULTIPLIERS = {
    "": Decimal(1),
    **{
        suffix: Decimal(10) ** power
        for suffix, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
    },
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def parse_quantity(quantity: int | str) -> Decimal:
    """Return the number that a quantity stands for.

    Raises:
        InvalidQuantityError: the text is no quantity; blanks are not allowed anywhere.
    """
    text = str(quantity)
    if len(text) > LONGEST_QUANTITY or not _QUANTITY.fullmatch(text):
        raise InvalidQuantityError(f"{text[:64]!r} is no Kubernetes quantity such as 500m, 2 or 4Gi")
    number, suffix = _PARTS.fullmatch(text).groups()  # type: ignore[union-attr]  # matches every quantity
    if suffix in _MULTIPLIERS:
        return Decimal(number) * _MULTIPLIERS[suffix]
    return Decimal(f"{number}{suffix}")


def _checked(quantity: int | str) -> int | str:
    parse_quantity(quantity)
    return quantity


_SCHEMA: dict[str, Any] = {
    "x-kubernetes-int-or-string": True,
    "pattern": QUANTITY_PATTERN,
    "maxLength": LONGEST_QUANTITY,
}

Quantity = Annotated[int | str, AfterValidator(_checked), WithJsonSchema(_SCHEMA)]
"""A quantity in the user's spelling."""

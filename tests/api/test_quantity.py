"""Quantities mean what Kubernetes says they mean."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.errors import InvalidQuantityError
from api.quantity import parse_quantity

SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", "0"),
        (1, "1"),
        ("500m", "0.5"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("+1", "1"),
        ("-2Ki", "-2048"),
        ("4Gi", "4294967296"),
        ("1E", "1e18"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("12e-2", "0.12"),
        ("100n", "0.0000001"),
        ("3u", "0.000003"),
        ("1Ei", "1152921504606846976"),
    ],
)
def test_known_quantities(text: str | int, number: str) -> None:
    assert parse_quantity(text) == Decimal(number)


@pytest.mark.parametrize(
    "text",
    ["", " ", "1 Gi", " 1Gi", "1Gi\n", "Gi", ".", "+", "1gi", "1K", "1GB", "1e", "1e1.5", "1e999", "1,5", "\u0661Gi"],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuantityError, match="no Kubernetes quantity"):
        parse_quantity(text)


@given(number=st.decimals(min_value=-(10**9), max_value=10**9, places=3), suffix=st.sampled_from(SUFFIXES))
def test_the_order_of_numbers_survives_their_suffix(number: Decimal, suffix: str) -> None:
    larger = number + Decimal("0.001")

    assert parse_quantity(f"{number:f}{suffix}") < parse_quantity(f"{larger:f}{suffix}")


@given(number=st.integers(min_value=0, max_value=10**6))
def test_suffixes_stand_for_their_multiples(number: int) -> None:
    assert parse_quantity(f"{number * 1024}Mi") == parse_quantity(f"{number}Gi")
    assert parse_quantity(f"{number * 1000}m") == parse_quantity(number)
    assert parse_quantity(f"{number}k") == parse_quantity(f"{number}e3")

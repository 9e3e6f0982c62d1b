"""Durations are read as Go and CEL read them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.duration import parse_duration, parse_nanoseconds
from api.errors import InvalidDurationError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("-1m", -60),
        ("+1m", 60),
        ("100ms", 0.1),
        ("3us", 0.000003),
        ("3\N{MICRO SIGN}s", 0.000003),
        ("3\N{GREEK SMALL LETTER MU}s", 0.000003),
        ("1s1h", 3601),
    ],
)
def test_known_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "1", "1d", "90", "1 h", " 1h", "1h ", "h", ".s", "1h-1m", "--1s", "1H", "1e3s", "\u0661s"]
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidDurationError, match="no duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["9999999999999h", "1" * 200 + "ns"])
def test_what_does_not_fit_64_bits_is_refused(text: str) -> None:
    with pytest.raises(InvalidDurationError, match="longer than a duration can be"):
        parse_nanoseconds(text)


def test_a_hostile_text_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidDurationError):
        parse_nanoseconds("1" * 10_000 + "ns")


def test_nanoseconds_are_exact() -> None:
    assert parse_nanoseconds("59.999999999s") == 59_999_999_999
    assert parse_nanoseconds("0.0000000019s") == 1


@given(
    hours=st.integers(0, 10_000),
    minutes=st.integers(0, 10_000),
    seconds=st.integers(0, 10_000),
    microseconds=st.integers(0, 10_000),
)
def test_terms_add_up(hours: int, minutes: int, seconds: int, microseconds: int) -> None:
    text = f"{hours}h{minutes}m{seconds}s{microseconds}us"

    assert parse_duration(text) == timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=microseconds)

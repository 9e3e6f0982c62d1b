"""Durations in Go's syntax, with exactly the texts that `duration()` of CEL accepts.

So a rule that the API server checks in CEL and the same rule in Python agree.
"""

from __future__ import annotations

import re
from datetime import timedelta

from api.errors import InvalidDurationError

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "\N{MICRO SIGN}s": 10**3,
    "\N{GREEK SMALL LETTER MU}s": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_TERM = rf"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:{'|'.join(sorted(_UNITS, key=len, reverse=True))})"
_DURATION = re.compile(rf"[+-]?(?:0|(?:{_TERM})+)", re.ASCII)
_TERMS = re.compile(r"([0-9]*)\.?([0-9]*)([^0-9.]+)", re.ASCII)

# Go counts nanoseconds in 64 bits; nobody needs more digits than this to say so.
_LARGEST_NANOSECONDS = 2**63 - 1
_LONGEST_TEXT = 256


def parse_nanoseconds(text: str) -> int:
    """Return a duration in nanoseconds; each term's fraction is cut there, as Go cuts it.

    Raises:
        InvalidDurationError: the text is no Go duration, or does not fit 64 bits of nanoseconds.
    """
    if len(text) > _LONGEST_TEXT or not _DURATION.fullmatch(text):
        raise InvalidDurationError(f"{text[:64]!r} is no duration such as 90s, 10m or 1h30m")
    total = sum(_term_nanoseconds(*term.groups()) for term in _TERMS.finditer(text.lstrip("+-")))
    if total > _LARGEST_NANOSECONDS:
        raise InvalidDurationError(f"{text[:64]!r} is longer than a duration can be (about 292 years)")
    return -total if text.startswith("-") else total


def _term_nanoseconds(whole: str, fraction: str, unit: str) -> int:
    nanoseconds = _UNITS[unit]
    scale: int = 10 ** len(fraction)
    return int(whole or "0") * nanoseconds + int(fraction or "0") * nanoseconds // scale


def parse_duration(text: str) -> timedelta:
    """Return a duration, cut to microseconds.

    Raises:
        InvalidDurationError: as for `parse_nanoseconds`.
    """
    return timedelta(microseconds=parse_nanoseconds(text) // 1000)

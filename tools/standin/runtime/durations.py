"""Go-style durations, the `keep_alive` grammar (spec section 2.6) and RFC 3339 times."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Any, Final

FOREVER: Final = math.inf
_UNIT_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_GROUP: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"([+-]?)((?:{_GROUP.pattern})+)")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
_LONGEST_SECONDS: Final = 2**63 / 1e9


def parse_duration(text: str) -> float:
    """Return the seconds of ``1h30m``, ``-5m``, ``0`` or a numeric string; ValueError for anything else."""
    if _NUMBER.fullmatch(text):
        return _bounded(float(text))
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration such as 5m, 1h30m or 300")
    seconds = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _GROUP.findall(match[2]))
    return _bounded(-seconds if match[1] == "-" else seconds)


def parse_keep_alive(value: Any) -> float:
    """Return seconds of residency, `FOREVER` for a negative value; ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a number of seconds or a duration such as 5m is expected")  # noqa: TRY004 - one error type for callers
    seconds = parse_duration(value.strip()) if isinstance(value, str) else _bounded(float(value))
    return FOREVER if seconds < 0 else seconds


def _bounded(seconds: float) -> float:
    if not math.isfinite(seconds) or abs(seconds) > _LONGEST_SECONDS:
        raise ValueError("the duration is out of range")
    return seconds


def rfc3339(epoch_seconds: float) -> str:
    """Return UTC time with milliseconds and ``Z``; times beyond the calendar are shown as its end."""
    try:
        moment = datetime.fromtimestamp(epoch_seconds, UTC)
    except (OverflowError, ValueError):
        moment = datetime.max.replace(tzinfo=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""The Range header of a request, as far as the registry honours it (RFC 9110 section 14)."""

import re
from dataclasses import dataclass

_SINGLE = re.compile(r"bytes=(?P<first>\d*)-(?P<last>\d*)")


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open interval of a body."""

    start: int
    stop: int


class UnsatisfiableRangeError(Exception):
    """The range lies wholly outside the body: the answer is 416."""


def requested_span(header: str | None, size: int) -> Span | None:
    """The part of a body of `size` bytes that is asked for, or None for all of it.

    A header that is malformed or asks for several parts is ignored, as the RFC allows.

    Raises:
        UnsatisfiableRangeError: No byte of the body is in the range.
    """
    match = _SINGLE.fullmatch(header or "")
    if match is None or not (match["first"] or match["last"]):
        return None
    span = _suffix(int(match["last"]), size) if not match["first"] else _from_first(match, size)
    if span is not None and span.start >= span.stop:
        raise UnsatisfiableRangeError
    return span


def _suffix(length: int, size: int) -> Span:
    return Span(max(size - length, 0), size)


def _from_first(match: re.Match[str], size: int) -> Span | None:
    first = int(match["first"])
    if not match["last"]:
        return Span(first, size)
    last = int(match["last"])
    if last < first:
        return None
    return Span(first, min(last + 1, size))

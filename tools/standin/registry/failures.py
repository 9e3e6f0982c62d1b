"""Ways in which a reply can go wrong, and the switches that say which replies do (spec section 10.3)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any


@dataclass(frozen=True, slots=True)
class Status:
    """Answer with this status and an HTML page."""

    status: int


@dataclass(frozen=True, slots=True)
class Redirect:
    """Send the client elsewhere."""

    location: str
    status: int = 302


@dataclass(frozen=True, slots=True)
class Cut:
    """Announce the whole body, send its first bytes, close the connection."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class Stall:
    """Announce the whole body, send its first bytes, then nothing for a while; then the rest."""

    after_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class IgnoreRange:
    """Answer a range request with 200 and the whole body."""


@dataclass(frozen=True, slots=True)
class Shorten:
    """Serve a body that really is shorter than the manifest says."""

    by_bytes: int = 1


@dataclass(frozen=True, slots=True)
class Corrupt:
    """Serve a body of the right length with its first byte changed."""


Failure = Status | Redirect | Cut | Stall | IgnoreRange | Shorten | Corrupt

_KINDS: Mapping[str, type[Failure]] = {
    "status": Status,
    "redirect": Redirect,
    "cut": Cut,
    "stall": Stall,
    "ignore_range": IgnoreRange,
    "shorten": Shorten,
    "corrupt": Corrupt,
}


@dataclass(frozen=True, slots=True)
class Switch:
    """A failure for the requests whose path matches."""

    path: str
    """Shell pattern over the whole request path, on both hosts; `*` also matches `/`."""
    failure: Failure
    times: int | None = 1
    """How many requests are still to fail; None for every one from now on."""


def take(switches: tuple[Switch, ...], path: str) -> tuple[Failure | None, tuple[Switch, ...]]:
    """The failure for a request, if any, and the switches that remain after it. The first match wins."""
    for index, switch in enumerate(switches):
        if fnmatchcase(path, switch.path):
            return switch.failure, (*switches[:index], *_spent(switch), *switches[index + 1 :])
    return None, switches


def _spent(switch: Switch) -> tuple[Switch, ...]:
    match switch.times:
        case None:
            return (switch,)
        case 1:
            return ()
        case times:
            return (Switch(switch.path, switch.failure, times - 1),)


def switch_from_json(document: Any) -> Switch:
    """Read `{"path": "/blobs/*", "times": 2, "failure": {"kind": "status", "status": 503}}`.

    Raises:
        ValueError: The document is no switch; the message says why.
    """
    match document:
        case {"path": str(path), "failure": {"kind": str(kind), **arguments}} if kind in _KINDS:
            return Switch(path, _failure(kind, arguments), _times(document.get("times", 1)))
    raise ValueError(f"a switch needs a path and a failure of kind {', '.join(_KINDS)}")


def _times(value: Any) -> int | None:
    if value is None or (type(value) is int and value >= 1):
        return value
    raise ValueError("times is a positive integer, or null for every request")


def _failure(kind: str, arguments: Mapping[Any, Any]) -> Failure:
    known = {field.name: field.type for field in fields(_KINDS[kind])}
    for name, value in arguments.items():
        if name not in known or not _fits(value, known[name]):
            raise ValueError(f"a failure of kind {kind} cannot have {name} = {value!r}")
    try:
        return _KINDS[kind](**arguments)
    except TypeError as error:
        raise ValueError(f"a failure of kind {kind} lacks something: {error}") from error


def _fits(value: Any, expected: Any) -> bool:
    """Numbers must not be negative: they count bytes and seconds."""
    if expected is float:
        return type(value) in {int, float} and value >= 0
    return type(value) is expected and (expected is not int or value >= 0)

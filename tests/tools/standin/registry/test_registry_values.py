"""The pure parts of the stand-in registry: ranges, failure switches, lazily made content."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.standin.registry.content import Damaged, Held, Zeros, sha256_hex
from tools.standin.registry.failures import Cut, IgnoreRange, Redirect, Stall, Status, Switch, switch_from_json, take
from tools.standin.registry.ranges import Span, UnsatisfiableRangeError, requested_span


@pytest.mark.parametrize(
    ("header", "span"),
    [
        ("bytes=0-0", Span(0, 1)),
        ("bytes=2-5", Span(2, 6)),
        ("bytes=7-", Span(7, 10)),
        ("bytes=7-99", Span(7, 10)),
        ("bytes=-3", Span(7, 10)),
        ("bytes=-99", Span(0, 10)),
    ],
)
def test_a_range_selects_bytes(header: str, span: Span) -> None:
    assert requested_span(header, 10) == span


@pytest.mark.parametrize("header", [None, "", "bytes=-", "bytes=5-2", "bytes=0-1,3-4", "items=0-1", "bytes=a-b"])
def test_a_header_that_makes_no_sense_is_ignored(header: str | None) -> None:
    assert requested_span(header, 10) is None


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-12", "bytes=-0"])
def test_a_range_outside_the_body_is_refused(header: str) -> None:
    with pytest.raises(UnsatisfiableRangeError):
        requested_span(header, 10)


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_span_is_never_empty_nor_outside_the_body(size: int, first: int, last: int) -> None:
    try:
        span = requested_span(f"bytes={first}-{last}", size)
    except UnsatisfiableRangeError:
        assert first >= size
        return
    assert span is None or 0 <= span.start < span.stop <= size


@given(st.integers(1, 5), st.integers(0, 8))
def test_a_switch_fails_as_many_requests_as_it_says(times: int, requests: int) -> None:
    switches: tuple[Switch, ...] = (Switch("/blobs/*", Status(503), times),)
    failures = []
    for _ in range(requests):
        failure, switches = take(switches, "/blobs/sha256-00")
        failures.append(failure)
    assert failures == [Status(503)] * min(times, requests) + [None] * max(requests - times, 0)


def test_a_switch_without_a_count_never_ends_and_others_paths_are_spared() -> None:
    switches = (Switch("/v2/*", Status(500), None),)
    assert take(switches, "/v2/library/laya/manifests/en") == (Status(500), switches)
    assert take(switches, "/blobs/sha256-00") == (None, switches)


def test_the_first_matching_switch_is_used_up_first() -> None:
    first, second = Switch("/a*", Status(500)), Switch("/*", Status(403))
    assert take((first, second), "/a") == (Status(500), (second,))
    assert take((first, second), "/b") == (Status(403), (first,))


@pytest.mark.parametrize(
    ("document", "switch"),
    [
        ({"path": "/x", "failure": {"kind": "status", "status": 503}}, Switch("/x", Status(503))),
        ({"path": "/x", "times": None, "failure": {"kind": "ignore_range"}}, Switch("/x", IgnoreRange(), None)),
        ({"path": "/x", "times": 3, "failure": {"kind": "cut", "after_bytes": 9}}, Switch("/x", Cut(9), 3)),
        (
            {"path": "/x", "failure": {"kind": "stall", "after_bytes": 0, "seconds": 31}},
            Switch("/x", Stall(0, 31)),
        ),
        ({"path": "/x", "failure": {"kind": "redirect", "location": "/y"}}, Switch("/x", Redirect("/y"))),
    ],
)
def test_switches_are_read_from_json(document: Any, switch: Switch) -> None:
    assert switch_from_json(document) == switch


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"path": "/x"},
        {"path": 1, "failure": {"kind": "corrupt"}},
        {"path": "/x", "failure": {"kind": "explode"}},
        {"path": "/x", "failure": {"kind": "status"}},
        {"path": "/x", "failure": {"kind": "status", "status": "503"}},
        {"path": "/x", "failure": {"kind": "status", "status": 503, "colour": "red"}},
        {"path": "/x", "failure": {"kind": "cut", "after_bytes": -1}},
        {"path": "/x", "times": 0, "failure": {"kind": "corrupt"}},
        {"path": "/x", "times": True, "failure": {"kind": "corrupt"}},
    ],
)
def test_other_json_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match=r"switch|times|failure"):
        switch_from_json(document)


@given(st.binary(min_size=1, max_size=50), st.data())
def test_damage_is_the_same_however_it_is_read(data: bytes, draw: st.DataObject) -> None:
    damaged = Damaged(Held(data))
    cut = draw.draw(st.integers(0, len(data)))
    whole = damaged.read(0, len(data))
    assert damaged.read(0, cut) + damaged.read(cut, len(data)) == whole
    assert (whole != data, len(whole), whole[1:]) == (True, len(data), data[1:])


def test_zeros_have_the_digest_of_zeros() -> None:
    assert sha256_hex(Zeros(3_000_000)) == sha256_hex(Held(bytes(3_000_000)))

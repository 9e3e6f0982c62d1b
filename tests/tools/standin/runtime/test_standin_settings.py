"""Environment, names and durations: grammar, defaults, refusals (spec sections 1.3, 2.6, 3.4 and 4.2)."""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.standin.runtime.durations import FOREVER, parse_duration, parse_keep_alive, rfc3339
from tools.standin.runtime.errors import InvalidModelNameError, SettingsError
from tools.standin.runtime.names import name_of_store_path, parse_model_name
from tools.standin.runtime.settings import parse_address, parse_settings

PART = st.from_regex(r"[a-z0-9_][a-z0-9_.-]{0,10}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5m", 300), ("1h30m", 5400), ("300", 300), ("1.5", 1.5), ("0", 0), ("-5m", -300), ("2ms", 0.002), ("1µs", 1e-6)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "5 m", "m", "1h-1m", "1d", "9" * 400, "1e5", "\N{FULLWIDTH DIGIT FIVE}m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(-1, FOREVER), ("-1", FOREVER), ("-5m", FOREVER), (0, 0), ("0s", 0), (1.5, 1.5), ("300", 300)],
)
def test_keep_alive(value: Any, seconds: float) -> None:
    assert parse_keep_alive(value) == seconds


@pytest.mark.parametrize("value", [True, [], {}, "x", math.inf, math.nan, 1e300])
def test_what_is_no_keep_alive(value: Any) -> None:
    with pytest.raises(ValueError, match=r"duration|number"):
        parse_keep_alive(value)


def test_times() -> None:
    assert rfc3339(1_800_000_000.1234) == "2027-01-15T08:00:00.123Z"
    assert rfc3339(1e15).startswith("9999-12-31")


@pytest.mark.parametrize(
    ("text", "canonical", "path"),
    [
        ("laya", "laya:latest", "ollaya.dev/library/laya/latest"),
        (" Laya:EN ", "laya:en", "ollaya.dev/library/laya/en"),
        ("me/laya:en", "me/laya:en", "ollaya.dev/me/laya/en"),
        ("mirror.corp/laya:en", "mirror.corp/laya:en", "ollaya.dev/mirror.corp/laya/en"),
        ("mirror.corp/library/laya:en", "mirror.corp/library/laya:en", "mirror.corp/library/laya/en"),
        ("ollaya.dev/library/laya:en", "laya:en", "ollaya.dev/library/laya/en"),
        ("10.0.0.1:5000/x/laya", "10.0.0.1:5000/x/laya:latest", "10.0.0.1_5000/x/laya/latest"),
        ("http://h:5000/x/laya:1", "http://h:5000/x/laya:1", "h_5000/x/laya/1"),
    ],
)
def test_names(text: str, canonical: str, path: str) -> None:
    name = parse_model_name(text, "ollaya.dev")
    assert name.canonical("ollaya.dev") == canonical
    assert name.store_path == PurePosixPath(path)


@pytest.mark.parametrize(
    "text",
    ["", ":", "laya:", "laya@sha256:ab", "a/b/c/d", "-laya", ".laya", "a//b", "x" * 81, "la ya", "../x/y", "laya:a:b"],
)
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(InvalidModelNameError, match="invalid model name"):
        parse_model_name(text, "ollaya.dev")


@given(PART, PART, PART)
def test_canonical_names_are_read_back(namespace: str, model: str, tag: str) -> None:
    name = parse_model_name(f"mirror.corp:5000/{namespace}/{model}:{tag}", "ollaya.dev")
    assert parse_model_name(name.canonical("ollaya.dev"), "ollaya.dev") == name
    assert name_of_store_path(name.store_path) == name


@given(st.text(max_size=30))
def test_any_text_is_a_name_or_refused(text: str) -> None:
    try:
        name = parse_model_name(text, "ollaya.dev")
    except InvalidModelNameError:
        return
    assert ".." not in name.store_path.parts


def test_urls_follow_the_scheme_of_the_registry() -> None:
    assert parse_model_name("laya:en", "ollaya.dev").manifest_url == "https://ollaya.dev/v2/library/laya/manifests/en"
    plain = parse_model_name("laya:en", "http://127.0.0.1:8123")
    assert plain.manifest_url == "http://127.0.0.1:8123/v2/library/laya/manifests/en"
    assert plain.store_path.parts[0] == "127.0.0.1_8123"


def test_defaults() -> None:
    settings = parse_settings({"HOME": "/home/ollaya"})
    assert (str(settings.address), settings.models) == ("127.0.0.1:11435", Path("/home/ollaya/.ollaya/models"))
    assert (settings.keep_alive, settings.max_loaded_models, settings.max_queue) == (300, 3, 512)
    assert (settings.load_timeout, settings.device, settings.registry) == (300, "auto", "ollaya.dev")
    assert (settings.api_key, settings.threads, settings.version, settings.control) == (None, None, "0.12.0", None)


def test_blank_values_count_as_unset() -> None:
    names = ("OLLAYA_HOST", "OLLAYA_KEEP_ALIVE", "OLLAYA_DEVICE", "OLLAYA_MAX_QUEUE", "OLLAYA_LOAD_TIMEOUT")
    assert parse_settings(dict.fromkeys(names, "  ")) == parse_settings({})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OLLAYA_HOST", "host:port"),
        ("OLLAYA_HOST", "ftp://x"),
        ("OLLAYA_HOST", "h:70000"),
        ("OLLAYA_KEEP_ALIVE", "soon"),
        ("OLLAYA_MAX_LOADED_MODELS", "0"),
        ("OLLAYA_MAX_LOADED_MODELS", "three"),
        ("OLLAYA_MAX_QUEUE", "-1"),
        ("OLLAYA_LOAD_TIMEOUT", "0"),
        ("OLLAYA_LOAD_TIMEOUT", "-5m"),
        ("OLLAYA_DEVICE", "gpu"),
        ("OLLAYA_DEVICE", "cuda:"),
        ("OLLAYA_DEVICE", "cpu:0"),
        ("OLLAYA_THREADS", "0"),
        ("OLLAYA_STANDIN_VERSION", "latest"),
        ("OLLAYA_STANDIN_CONTROL", "here:there"),
        ("OLLAYA_STANDIN_GPU", "maybe"),
        ("OLLAYA_STANDIN_HUNG", "yes"),
    ],
)
def test_a_bad_value_is_named(variable: str, value: str) -> None:
    expected = "OLLAYA_STANDIN" if variable.startswith("OLLAYA_STANDIN") else variable
    with pytest.raises(SettingsError, match=expected):
        parse_settings({variable: value})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.0.0.0", ("0.0.0.0", 11435, "")),
        ("https://a.b/c/d/", ("a.b", 443, "/c/d")),
        ("[::1]:80", ("::1", 80, "")),
        (":9", ("127.0.0.1", 9, "")),
    ],
)
def test_addresses(text: str, expected: tuple[str, int, str]) -> None:
    address = parse_address(text)
    assert (address.host, address.port, address.prefix) == expected


def test_old_versions_ignore_newer_variables() -> None:
    environment = {"OLLAYA_THREADS": "4", "OLLAYA_HF_ENDPOINT": "http://m", "OLLAYA_HF_TOKEN": "t", "HF_TOKEN": "u"}
    newest = parse_settings(environment)
    assert (newest.threads, newest.hugging_face.endpoint, newest.hugging_face.token) == (4, "http://m", "t")
    old = parse_settings({**environment, "OLLAYA_STANDIN_VERSION": "0.9.0"})
    assert (old.threads, old.hugging_face.endpoint, old.hugging_face.token) == (None, None, None)
    assert parse_settings({**environment, "OLLAYA_THREADS": "x", "OLLAYA_STANDIN_VERSION": "0.10.0"}).threads is None

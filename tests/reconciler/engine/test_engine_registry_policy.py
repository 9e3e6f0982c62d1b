"""Allowed registries, and the options that configure them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.errors import InvalidEndpoint, RegistryNotAllowed
from reconciler.engine.names import ModelName
from reconciler.engine.registry_policy import (
    RegistryPolicy,
    check_allowed,
    parse_allowed_registries,
    parse_endpoint,
)


def allowed(text: str, policy: RegistryPolicy) -> bool:
    try:
        check_allowed(ModelName.parse(text), policy)
    except RegistryNotAllowed:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("laya:en", True),
        ("ollaya.dev/laya:en", True),
        ("OLLAYA.DEV/laya:en", True),
        ("ollaya.dev:8443/laya:en", False),
        ("evil.ollaya.dev/laya:en", False),
        ("ollaya.dev.evil/laya:en", False),
        ("http://ollaya.dev/laya:en", False),
    ],
)
def test_only_the_public_registry_over_tls_by_default(text: str, expected: bool) -> None:
    assert allowed(text, RegistryPolicy()) is expected


def test_plain_http_needs_both_permissions() -> None:
    policy = RegistryPolicy(allowed=frozenset({"mirror.corp:5000"}), allow_insecure=True)
    assert allowed("http://mirror.corp:5000/laya:en", policy)
    assert not allowed("http://other.corp/laya:en", policy)


def test_the_configured_registry_must_be_on_the_list_too() -> None:
    policy = RegistryPolicy(registry_url="https://mirror.corp/models")
    assert not allowed("laya:en", policy)
    assert allowed("ollaya.dev/laya:en", policy)


@pytest.mark.parametrize(
    ("value", "endpoint"),
    [
        ("https://Mirror.Corp/", "https://mirror.corp"),
        (" https://mirror.corp:443 ", "https://mirror.corp"),
        ("http://127.0.0.1:80/hf/", "http://127.0.0.1/hf"),
        ("https://mirror.corp:8443/a/b_c", "https://mirror.corp:8443/a/b_c"),
    ],
)
def test_endpoints_take_their_shortest_form(value: str, endpoint: str) -> None:
    assert parse_endpoint("--ollaya-registry", value, allow_insecure=True) == endpoint


@pytest.mark.parametrize(
    "value",
    [
        "",
        "mirror.corp",
        "//mirror.corp",
        "ftp://mirror.corp",
        "https://",
        "https://user:s3cret@mirror.corp",
        "https://mirror.corp?s3cret",
        "https://mirror.corp/#s3cret",
        "https://mirror.corp/a/../s3cret",
        "https://mirror.corp/a//s3cret",
        "https://mirror.corp:99999",
        "https://[::1",
        "https://a b",
        "http://mirror.corp",
    ],
)
def test_unusable_endpoints_are_refused_without_being_repeated(value: str) -> None:
    with pytest.raises(InvalidEndpoint, match="--ollaya-registry") as refusal:
        parse_endpoint("--ollaya-registry", value, allow_insecure=False)
    assert "s3cret" not in str(refusal.value)


@given(value=st.text(max_size=40) | st.text(alphabet="htps:/@?#.[]a1", max_size=20).map("https://".__add__))
def test_an_accepted_endpoint_is_stable(value: str) -> None:
    try:
        endpoint = parse_endpoint("--ollaya-registry", value, allow_insecure=True)
    except InvalidEndpoint:
        return
    assert parse_endpoint("--ollaya-registry", endpoint, allow_insecure=True) == endpoint
    assert not endpoint.endswith("/")
    assert ".." not in endpoint.split("/")


def test_allow_list_is_trimmed_and_lower_case() -> None:
    assert parse_allowed_registries(" Ollaya.dev, mirror:5000") == {"ollaya.dev", "mirror:5000"}


@pytest.mark.parametrize("text", ["", "a.b,,c.d", "https://a.b", "a.b/c", "a b"])
def test_a_malformed_allow_list_is_refused(text: str) -> None:
    with pytest.raises(InvalidEndpoint):
        parse_allowed_registries(text)

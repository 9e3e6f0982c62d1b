"""Proxy settings that a prefetch Job inherits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.proxy import ProxySettings, inherited_proxy


def inherited(settings: ProxySettings) -> dict[str, str | None]:
    return {variable.name: variable.value for variable in settings.variables}


def test_copies_what_is_set_and_nothing_else() -> None:
    environment = {
        "HTTP_PROXY": "http://proxy:3128",
        "https_proxy": "proxy.corp:3128",
        "NO_PROXY": "10.0.0.0/8,.svc",
        "http_proxy": "",
        "ALL_PROXY": "socks5://proxy",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
    }
    settings = inherited_proxy(environment)
    assert inherited(settings) == {
        "HTTP_PROXY": "http://proxy:3128",
        "https_proxy": "proxy.corp:3128",
        "NO_PROXY": "10.0.0.0/8,.svc",
    }
    assert settings.skipped == ()


@pytest.mark.parametrize(
    "value", ["http://user:pw@proxy", "user:pw@proxy:3128", "http://proxy:port", "http://", "http://[::1", "a b", "x\n"]
)
def test_withholds_what_may_hold_credentials(value: str) -> None:
    settings = inherited_proxy({"HTTPS_PROXY": value, "no_proxy": ".svc"})
    assert inherited(settings) == {"no_proxy": ".svc"}
    assert settings.skipped == ("HTTPS_PROXY",)


def test_one_spelling_never_overrides_half_of_the_other() -> None:
    settings = inherited_proxy(
        {"HTTP_PROXY": "http://clean", "http_proxy": "http://u:p@secret", "HTTPS_PROXY": "http://t"}
    )
    assert inherited(settings) == {"HTTPS_PROXY": "http://t"}
    assert settings.skipped == ("HTTP_PROXY", "http_proxy")


@given(
    environment=st.dictionaries(
        st.sampled_from(["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "PATH"]),
        st.one_of(st.text(max_size=20), st.sampled_from(["http://p:1", "http://u:p@h", "h:1"])),
    )
)
def test_no_credentials_pass(environment: dict[str, str]) -> None:
    settings = inherited_proxy(environment)
    names = list(inherited(settings))
    assert all("@" not in (value or "") for name, value in inherited(settings).items() if name.lower() != "no_proxy")
    assert {name.lower() for name in names}.isdisjoint(name.lower() for name in settings.skipped)
    assert "PATH" not in names

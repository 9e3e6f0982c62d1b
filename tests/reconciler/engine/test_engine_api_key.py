"""API keys: access to their Secrets, and the checksums that roll Pods."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.desired import SecretKey
from reconciler.engine.api_key import (
    KeyChecksums,
    SecretCapability,
    bearer_key,
    is_open_to,
    key_checksum,
    legacy_checksum,
    next_checksums,
    secret_value,
)
from reconciler.engine.errors import SecretKeyInvalid, SecretNotAllowed

REFERENCE = SecretKey(name="keys", key="api")
LABEL = "decisionmodel.io/api-key"


def secret(labels: Any = None, data: Any = None) -> dict[str, Any]:
    return {"metadata": {"name": "keys", "labels": labels}, "data": data}


def encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def test_an_open_secret_yields_its_value() -> None:
    opened = secret({LABEL: "true"}, {"api": encoded(b"k\x00ey")})
    assert secret_value(opened, REFERENCE, SecretCapability.API_KEY, "router") == b"k\x00ey"


@pytest.mark.parametrize("labels", [None, {}, {LABEL: "True"}, {"decisionmodel.io/eval-dataset": "true"}])
def test_a_secret_without_the_label_stays_shut(labels: Any) -> None:
    with pytest.raises(SecretNotAllowed, match=LABEL):
        secret_value(secret(labels, {"api": encoded(b"x")}), REFERENCE, SecretCapability.API_KEY, "router")


@pytest.mark.parametrize(
    ("label", "opens"),
    [
        ("true", True),
        ("router", True),
        ("other_router", True),
        ("router_other", True),
        ("router2", False),
        ("other", False),
        ("route_r", False),
        ("true_other", False),
        ("", False),
    ],
)
def test_a_label_opens_a_secret_to_all_or_to_those_it_names(label: str, opens: bool) -> None:
    assert is_open_to(label, "router") is opens


def test_who_has_no_name_is_not_named() -> None:
    assert not is_open_to("", "")


def test_one_label_gives_one_right() -> None:
    opened = secret({"decisionmodel.io/download-token": "true"}, {"api": encoded(b"x")})
    assert secret_value(opened, REFERENCE, SecretCapability.DOWNLOAD_TOKEN, "router") == b"x"
    with pytest.raises(SecretNotAllowed):
        secret_value(opened, REFERENCE, SecretCapability.API_KEY, "router")


@pytest.mark.parametrize(
    "found",
    [
        None,
        secret({LABEL: "true"}),
        secret({LABEL: "true"}, {"b": "eA=="}),
        secret({LABEL: "true"}, {"api": "s3cret!"}),
    ],
)
def test_a_missing_value_is_named_without_what_is_there(found: Any) -> None:
    with pytest.raises(SecretKeyInvalid, match="keys") as error:
        secret_value(found, REFERENCE, SecretCapability.API_KEY, "router")
    assert "s3cret" not in str(error.value)


def test_a_bearer_key_is_trimmed_as_the_runtime_does() -> None:
    assert bearer_key(b" key-1 \n", REFERENCE) == "key-1"


@pytest.mark.parametrize("value", [b"", b" \n", b"a\nb", b"a\x00b", "schlüssel".encode(), b"\xff"])
def test_a_blank_or_unprintable_key_is_refused(value: bytes) -> None:
    with pytest.raises(SecretKeyInvalid):
        bearer_key(value, REFERENCE)


def test_the_checksum_is_an_hmac_keyed_by_the_secrets_uid() -> None:
    expected = hmac.new(b"uid-1", b"key", hashlib.sha256).hexdigest()[:16]
    assert key_checksum("uid-1", b"key") == expected
    assert key_checksum("uid-2", b"key") != expected
    assert legacy_checksum(b"key") == hashlib.sha256(b"key").hexdigest()[:16]


@pytest.mark.parametrize(
    ("recorded", "current", "expected"),
    [
        pytest.param(None, "new", ("new", "new"), id="creation"),
        pytest.param((None, None), "new", ("new", None), id="first observation only records"),
        pytest.param(("legacy", None), "new", ("new", None), id="legacy is migrated without a roll"),
        pytest.param(("legacy", "legacy"), "new", ("new", "legacy"), id="legacy in the template stays"),
        pytest.param(("new", None), "new", ("new", None), id="unchanged"),
        pytest.param(("old", None), "new", ("new", "new"), id="rotation rolls"),
        pytest.param(("old", "old"), "new", ("new", "new"), id="second rotation rolls"),
        pytest.param(("old", "older"), None, ("old", "older"), id="unreadable keeps"),
        pytest.param(None, None, (None, None), id="unreadable from the start"),
    ],
)
def test_only_a_rotation_rolls(
    recorded: tuple[str | None, str | None] | None, current: str | None, expected: tuple[str | None, str | None]
) -> None:
    before = None if recorded is None else KeyChecksums(deployment=recorded[0], template=recorded[1])
    after = next_checksums(before, current=current, legacy="legacy")
    assert (after.deployment, after.template) == expected


checksums = st.none() | st.sampled_from(["a", "b", "c"])


@given(deployment=checksums, template=checksums, current=checksums, legacy=checksums)
def test_a_second_look_changes_nothing(
    deployment: str | None, template: str | None, current: str | None, legacy: str | None
) -> None:
    once = next_checksums(KeyChecksums(deployment=deployment, template=template), current=current, legacy=legacy)
    assert next_checksums(once, current=current, legacy=legacy) == once

"""Texts of other components in conditions: one line, bounded, and without anything that could be a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.controller.cluster_words import LONGEST_WORDS, shortened


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ('storageclass.storage.k8s.io "fast-ssd" not found', 'storageclass.storage.k8s.io "fast-ssd" not found'),
        ("0/1 nodes are available: 1 Insufficient memory. ", "0/1 nodes are available: 1 Insufficient memory"),
        (
            'Back-off pulling image "x:1": ErrImagePull: rpc error: code = NotFound desc = x:1 not found',
            "rpc error: code = NotFound desc = x:1 not found",
        ),
        (
            'Error creating: pods "router-pf-1-abcde" is forbidden: failed quota: compute: must specify limits.cpu',
            "failed quota: compute: must specify limits.cpu",
        ),
        ("two\nlines\tand\x1b[31m more", "two lines and [31m more"),
        (None, ""),
    ],
)
def test_the_clusters_words_stay_and_what_changes_with_every_attempt_goes(told: object, shown: str) -> None:
    assert shortened(told) == shown


@pytest.mark.parametrize(
    "told",
    [
        "failed to pull https://robot:HIDDEN@registry.corp/v2/x: 401",
        "Get https://registry.corp/token?scope=x&sig=HIDDEN: 403",
        "Authorization: Bearer HIDDEN.HIDDEN",
        "container failed: HF_TOKEN=HIDDEN is not accepted",
        'env OLLAYA_ANY="HIDDEN value" refused',
        "password: HIDDEN",
        '{"api_key": "HIDDEN", "user": "x"}',
        "client_secret=HIDDEN&more",
        "denied for eyJhbGciHIDDENHIDDEN.HIDDEN.HIDDEN",
        "hf_HIDDENHIDDENHIDDEN was refused",
    ],
)
def test_nothing_that_could_be_a_secret_is_repeated(told: str) -> None:
    assert "HIDDEN" not in shortened(told)


def test_digests_and_names_are_no_secrets() -> None:
    told = f"ghcr.io/ollaya-dev/ollaya@sha256:{'a1' * 32}: not found in secret-registry"
    assert shortened(told) == told


@given(st.text(max_size=6000))
def test_any_text_becomes_one_bounded_line(told: str) -> None:
    shown = shortened(told)
    assert len(shown) <= LONGEST_WORDS
    assert not set(shown) & {"\n", "\r", "\x1b"}

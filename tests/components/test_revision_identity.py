"""Revision hashes and identities (spec section 3.1)."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.identity import (
    NO_PLACEMENT,
    RevisionIdentity,
    is_legacy_record,
    legacy_hash,
    placement_hash,
    pods_hash,
    revision_hash,
    same_identity,
)

DIGEST = "ab" * 32
TAG = "ghcr.io/ollaya-dev/ollaya:0.12.0"
PINNED = f"{TAG}@sha256:{'f7' * 32}"
IDENTITY = RevisionIdentity(
    engine="ollaya",
    model="laya:en",
    digest=DIGEST,
    device="cpu",
    image=PINNED,
    resources={"requests": {"memory": "1Gi", "cpu": "1"}, "limits": {"cpu": "2"}},
    placement="0123456789",
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
identities = st.builds(
    RevisionIdentity,
    engine=st.just("ollaya"),
    model=texts,
    digest=texts,
    device=st.sampled_from(["cpu", "cuda"]),
    image=texts,
    resources=st.dictionaries(texts, st.dictionaries(texts, texts, max_size=2), max_size=2),
    placement=st.text("0123456789abcdef", max_size=10),
)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_hash_covers_one_json_object_in_the_stated_order() -> None:
    text = (
        f'{{"engine":"ollaya","model":"laya:en","digest":"{DIGEST}","device":"cpu","image":"{PINNED}",'
        '"resources":{"limits":{"cpu":"2"},"requests":{"cpu":"1","memory":"1Gi"}},"placement":"0123456789"}'
    )
    assert revision_hash(IDENTITY) == sha256(text)[:16]


@pytest.mark.parametrize("placement", ["", NO_PLACEMENT])
def test_an_empty_placement_is_left_out(placement: str) -> None:
    identity = replace(IDENTITY, resources={}, placement=placement)
    text = (
        f'{{"engine":"ollaya","model":"laya:en","digest":"{DIGEST}","device":"cpu",'
        f'"image":"{PINNED}","resources":{{}}}}'
    )
    assert revision_hash(identity) == sha256(text)[:16]


def test_the_legacy_hash_knows_neither_placement_nor_image_digest() -> None:
    text = (
        f'{{"engine":"ollaya","model":"laya:en","digest":"{DIGEST}","device":"cpu","image":"{TAG}",'
        '"resources":{"limits":{"cpu":"2"},"requests":{"cpu":"1","memory":"1Gi"}}}'
    )
    assert legacy_hash(IDENTITY) == sha256(text)[:10]


@pytest.mark.parametrize(
    "change",
    [
        {"engine": "other"},
        {"model": "Laya:EN"},
        {"model": "library/laya:en"},
        {"digest": "cd" * 32},
        {"device": "cuda"},
        {"image": TAG},
        {"resources": {}},
        {"placement": ""},
        {"pods": "0123456789"},
    ],
    ids=str,
)
def test_every_field_is_part_of_the_hash(change: dict[str, Any]) -> None:
    assert revision_hash(replace(IDENTITY, **change)) != revision_hash(IDENTITY)


def test_whose_image_it_is_does_not_matter_to_the_hash() -> None:
    assert revision_hash(replace(IDENTITY, custom_image=True)) == revision_hash(IDENTITY)


@given(identities)
def test_a_hash_depends_on_values_alone(identity: RevisionIdentity) -> None:
    shuffled = {key: dict(reversed(value.items())) for key, value in reversed(tuple(identity.resources.items()))}
    assert revision_hash(replace(identity, resources=shuffled)) == revision_hash(identity)
    assert len(revision_hash(identity)) == 16


@given(identities, identities)
def test_the_same_identity_with_the_same_image_has_the_same_hash(
    one: RevisionIdentity, other: RevisionIdentity
) -> None:
    assert same_identity(one, one)
    same = same_identity(one, replace(other, image=one.image))
    assert same == (revision_hash(one) == revision_hash(replace(other, image=one.image)))


@pytest.mark.parametrize(
    "scheduling", [{}, {"nodeSelector": {}, "tolerations": [], "affinity": None, "runtimeClassName": ""}]
)
def test_scheduling_without_content_has_no_placement(scheduling: dict[str, Any]) -> None:
    assert placement_hash(scheduling) == ""


def test_a_placement_is_ten_digits_of_the_schedulings_json() -> None:
    scheduling = {"runtimeClassName": "nvidia", "nodeSelector": {"b": "1", "a": "2"}, "tolerations": []}
    assert placement_hash(scheduling) == sha256('{"nodeSelector":{"a":"2","b":"1"},"runtimeClassName":"nvidia"}')[:10]


@pytest.mark.parametrize(
    ("recorded", "wanted", "same"),
    [
        ({}, {}, True),
        ({"image": TAG}, {}, True),
        ({}, {"image": TAG}, True),
        ({"image": f"{TAG}@sha256:{'00' * 32}"}, {}, False),
        ({"image": "ghcr.io/ollaya-dev/ollaya:0.11.0"}, {}, False),
        ({"image": TAG, "custom_image": True}, {}, False),
        ({"image": TAG}, {"custom_image": True}, False),
        ({"custom_image": True}, {"custom_image": True}, True),
        ({"placement": NO_PLACEMENT}, {"placement": ""}, True),
        ({"placement": NO_PLACEMENT}, {}, False),
        ({"resources": {}}, {}, False),
        ({"pods": "0123456789"}, {}, False),
        ({"model": "Laya:EN"}, {}, False),
    ],
    ids=str,
)
def test_when_a_record_is_what_is_wanted(recorded: dict[str, Any], wanted: dict[str, Any], same: bool) -> None:
    assert same_identity(replace(IDENTITY, **recorded), replace(IDENTITY, **wanted)) is same


@pytest.mark.parametrize(
    ("recorded_hash", "placement", "legacy"),
    [
        (legacy_hash(IDENTITY), "", True),
        (legacy_hash(IDENTITY), NO_PLACEMENT, False),
        (legacy_hash(IDENTITY), "0123456789", False),
        (revision_hash(IDENTITY), "", False),
        ("0123456789", "", False),
    ],
)
def test_a_legacy_record_is_known_by_its_hash_and_missing_placement(
    recorded_hash: str, placement: str, *, legacy: bool
) -> None:
    assert is_legacy_record(recorded_hash, placement, IDENTITY) is legacy


def test_a_legacy_record_is_not_what_asks_for_more_in_its_pods() -> None:
    assert not is_legacy_record(legacy_hash(IDENTITY), "", replace(IDENTITY, pods="0123456789"))


@pytest.mark.parametrize("pods", [{}, {"labels": {}, "annotations": {}, "imagePullSecrets": []}])
def test_pods_that_get_nothing_besides_have_no_hash(pods: dict[str, Any]) -> None:
    assert pods_hash(pods) == ""
    assert pods_hash({**pods, "labels": {"a": "b"}}) == sha256('{"labels":{"a":"b"}}')[:10]

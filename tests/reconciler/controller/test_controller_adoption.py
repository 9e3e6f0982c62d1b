"""Recognising a stable revision that an earlier version recorded."""

from __future__ import annotations

import pytest

from api.status import DecisionModelStatus, RevisionStatus
from components.identity import legacy_hash
from reconciler.controller.revisions import identity, recognise

WANTED = RevisionStatus(
    hash="0123456789abcdef",
    engine="ollaya",
    model="laya:en",
    digest="d" * 64,
    device="cpu",
    image="ghcr.io/ollaya-dev/ollaya:0.12.0@sha256:00",
    runtime_version="0.12.0",
    placement="none",
)
LEGACY = WANTED.model_copy(
    update={"hash": legacy_hash(identity(WANTED)), "image": "", "runtime_version": "", "placement": ""}
)


@pytest.mark.parametrize(
    ("recorded_image", "image"), [("", WANTED.image), ("ghcr.io/ollaya-dev/ollaya:0.12.0",) * 2], ids=["none", "a tag"]
)
def test_a_legacy_record_is_completed(recorded_image: str, image: str) -> None:
    recorded = LEGACY.model_copy(update={"image": recorded_image})
    found = recognise(WANTED, DecisionModelStatus(stable_revision=recorded))
    assert (found.hash, found.placement, found.image) == (LEGACY.hash, "none", image)
    assert recognise(WANTED, DecisionModelStatus(stable_revision=found)) == found


@pytest.mark.parametrize("change", [{"placement": "0123456789"}, {"hash": "fedcba9876"}])
def test_another_record_is_not(change: dict[str, str]) -> None:
    recorded = LEGACY.model_copy(update=change)
    assert recognise(WANTED, DecisionModelStatus(stable_revision=recorded)) == WANTED

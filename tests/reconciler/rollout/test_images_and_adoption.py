"""What is told about a rollout's runtime image, and a stable that an earlier version recorded."""

from __future__ import annotations

import pytest

from reconciler.rollout import Resolved
from tests.reconciler.rollout.worlds import World, revision, serving, told

PINNED = "ghcr.io/ollaya-dev/ollaya:0.13.0@sha256:00"


@pytest.mark.parametrize(
    ("image", "pinned", "expected"),
    [
        (PINNED, None, ["Resolved", "ServingImageApplied"]),
        ("ghcr.io/ollaya-dev/ollaya:0.13.0", False, ["Resolved", "ServingImageApplied", "UnpinnedRuntimeImage"]),
        ("ghcr.io/ollaya-dev/ollaya:0.12.0", None, ["Resolved"]),
    ],
)
def test_another_image_is_named_once(image: str, pinned: bool | None, expected: list[str]) -> None:  # a status field
    world = World()
    world.rolled_out("laya:en")
    world.settled()
    wanted = world.wants("laya:multilingual").model_copy(update={"image": image, "image_pinned": pinned})
    world.resolution = Resolved(revision=wanted)
    assert told(world.reconcile())[: len(expected)] == expected
    assert not {"ServingImageApplied", "UnpinnedRuntimeImage"} & set(told(world.reconcile()))


def test_a_recognised_record_of_an_earlier_version_is_completed_and_rolls_nothing_out() -> None:
    world = World()
    legacy = revision().model_copy(update={"hash": "0123456789", "placement": ""})
    completed = legacy.model_copy(update={"placement": "none"})
    world.status = world.status.model_copy(update={"stable_revision": legacy})
    world.revisions = {legacy.hash: serving(1)}
    world.service = legacy.hash
    world.resolution = Resolved(revision=completed)
    decision = world.reconcile()
    assert decision.status.stable_revision == completed
    assert decision.status.candidate_revision is None
    assert told(decision) == []

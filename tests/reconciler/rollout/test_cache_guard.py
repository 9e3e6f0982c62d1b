"""An edited cache beside a store that exists: it grows, or a condition says why it stays as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api.conditions import ConditionType, Phase, Reason
from api.status import RevisionStatus
from reconciler.rollout import ClaimFacts, Decision, StoreGrowth
from tests.reconciler.rollout.troubles import Trouble, prefetch_failed, serving_world
from tests.reconciler.rollout.worlds import World, condition

CLAIM = ClaimFacts(size="10Gi", access_modes=("ReadWriteOnce",), storage_class_name="standard")


def decision_for(cache: dict[str, Any], claim: ClaimFacts = CLAIM) -> Decision:
    """Decide about a Ready model whose cache is edited."""
    world = World()
    stable = world.rolled_out("laya:en")
    world.spec = {**world.spec, "cache": cache}
    world.revisions[stable.hash] = replace(world.revisions[stable.hash], claim=claim)
    return world.reconcile()


@pytest.mark.parametrize(
    ("cache", "named"),
    [
        ({"storageClassName": "fast"}, "storageClassName stays 'standard'"),
        ({"storageClassName": ""}, "storageClassName stays 'standard'"),
        ({"accessModes": ["ReadWriteMany"]}, "accessModes stay ReadWriteOnce"),
        ({"size": "9Gi"}, "size stays 10Gi, it cannot shrink"),
    ],
)
def test_what_a_claim_cannot_follow_is_a_condition_and_no_phase(cache: dict[str, Any], named: str) -> None:
    decision = decision_for(cache)
    degraded = condition(decision, ConditionType.DEGRADED)
    assert degraded.reason == Reason.CACHE_SPEC_IMMUTABLE
    assert named in degraded.message
    assert decision.status.phase is Phase.READY
    assert decision.growth is None


@pytest.mark.parametrize(
    "cache", [{}, {"size": "10Gi"}, {"size": "10240Mi"}, {"storageClassName": "standard"}, {"accessModes": []}]
)
def test_what_the_claim_already_is_changes_nothing(cache: dict[str, Any]) -> None:
    decision = decision_for(cache)
    assert decision.growth is None
    assert ConditionType.DEGRADED not in {each.type for each in decision.status.conditions}


def test_a_larger_size_is_asked_for() -> None:
    decision = decision_for({"size": "11Gi"})
    stable = decision.status.stable_revision
    assert stable is not None
    assert decision.growth == StoreGrowth(revision=stable.hash, size="11Gi")
    assert ConditionType.DEGRADED not in {each.type for each in decision.status.conditions}


def edited(world: World, stable: RevisionStatus, size: str) -> Decision:
    """Decide once the cache of a world with a stable is edited."""
    world.revisions[stable.hash] = replace(world.revisions[stable.hash], claim=CLAIM)
    world.spec = {**world.spec, "cache": {"size": size}}
    return world.reconcile()


def awaiting_approval(world: World) -> Decision:
    """Leave a candidate waiting for a person's word."""
    world.spec = {**world.spec, "rollout": {"promotion": "Manual"}}
    world.ready("laya:multilingual")
    decision = world.reconcile()
    assert decision.status.phase is Phase.AWAITING_PROMOTION
    return decision


@pytest.mark.parametrize(
    "trouble", [World.reconcile, prefetch_failed, awaiting_approval], ids=["in flight", "rejected", "held"]
)
def test_a_larger_size_is_asked_for_whatever_becomes_of_a_candidate(trouble: Trouble) -> None:
    world = serving_world()
    stable = world.status.stable_revision
    assert stable is not None
    world.wants("laya:multilingual")
    trouble(world)
    assert edited(world, stable, "11Gi").growth == StoreGrowth(revision=stable.hash, size="11Gi")


def test_a_rejection_is_told_rather_than_a_cache_that_stays_as_it_is() -> None:
    world = serving_world()
    stable = world.status.stable_revision
    assert stable is not None
    world.wants("laya:multilingual")
    prefetch_failed(world)
    assert condition(edited(world, stable, "9Gi"), ConditionType.DEGRADED).reason == Reason.PREFETCH_FAILED


def test_a_refused_size_is_reported_and_still_wanted() -> None:
    decision = decision_for({"size": "11Gi"}, replace(CLAIM, growth_refused="the class does not allow it"))
    assert decision.growth is not None
    assert "the class does not allow it" in condition(decision, ConditionType.DEGRADED).message


def test_a_shortage_of_pods_is_reported_first() -> None:
    world = World()
    stable = world.rolled_out("laya:en")
    world.spec = {**world.spec, "cache": {"size": "1Gi"}}
    world.pods_ready(stable, 0)
    world.revisions[stable.hash] = replace(world.revisions[stable.hash], claim=CLAIM)
    assert condition(world.reconcile(), ConditionType.DEGRADED).reason == Reason.NO_MODEL_READY_PODS

"""A limited number of rollouts: who waits, what waiting looks like, and what is not held back by it."""

from __future__ import annotations

import pytest

from api.conditions import ConditionType, Phase, Reason
from reconciler.rollout import ServingFacts, StoreState
from tests.reconciler.rollout.worlds import World, condition, planned, told


def limited(world: World, *, admitted: bool = False) -> World:
    world.more = {"rollout_limit": 2, "admitted": admitted}
    return world


def serving_world() -> tuple[World, str]:
    world = World()
    stable = world.rolled_out("laya:en")
    world.settled()
    return limited(world), stable.hash


def test_a_first_rollout_waits_without_anything_allocated() -> None:
    world = limited(World())
    world.wants("laya:en")
    decision = world.reconcile()
    assert decision.queued
    assert planned(decision) == {}
    assert decision.status.phase is Phase.PENDING
    assert decision.status.candidate_revision is None
    ready = condition(decision, ConditionType.READY)
    assert (ready.status, ready.reason) == ("False", Reason.ROLLOUT_QUEUED)
    assert ready.message == "waiting for a rollout slot (max 2 concurrent rollouts)"
    assert decision.requeue_after == 10.0


def test_what_serves_is_maintained_while_its_successor_waits() -> None:
    world, stable = serving_world()
    world.wants("laya:multilingual")
    decision = world.reconcile()
    assert planned(decision) == {stable: True}
    assert decision.probe == (stable,)
    assert condition(decision, ConditionType.MODEL_READY).status == "True"
    assert condition(decision, ConditionType.READY).reason == Reason.ROLLOUT_QUEUED


def test_waiting_writes_nothing_anew_and_keeps_its_place() -> None:
    world, _ = serving_world()
    world.wants("laya:multilingual")
    since = world.reconcile().status.phase_transition_time
    before = world.status
    world.passes(100)
    decision = world.reconcile()
    assert decision.status == before
    assert decision.status.phase_transition_time == since


@pytest.mark.parametrize("serving", [True, False])
def test_a_process_that_takes_over_keeps_its_place_until_the_registry_has_answered_again(serving: bool) -> None:
    world = serving_world()[0] if serving else limited(World())
    world.wants("laya:multilingual")
    world.reconcile()
    before, world.resolution = world.status, None
    world.passes(100)
    decision = world.reconcile()
    assert decision.status == before
    assert decision.resolve
    assert not decision.queued


def test_a_store_lost_while_waiting_is_refilled() -> None:
    world, _ = serving_world()
    world.wants("laya:multilingual")
    world.reconcile()
    assert world.status.stable_revision is not None
    world.store_is(world.status.stable_revision, StoreState.ABSENT)
    assert told(world.reconcile()) == ["StoreLost"]


def test_an_admitted_rollout_begins() -> None:
    world, stable = serving_world()
    wanted = world.wants("laya:multilingual")
    world.reconcile()
    decision = limited(world, admitted=True).reconcile()
    assert not decision.queued
    assert planned(decision) == {stable: True, wanted.hash: False}
    assert decision.status.phase is Phase.CACHING


def test_a_rollout_under_way_needs_no_other_slot() -> None:
    world, _ = serving_world()
    world.wants("laya:multilingual")
    limited(world, admitted=True).reconcile()
    limited(world)
    assert not world.reconcile().queued
    world.wants("nli:latest")
    assert not world.reconcile().queued


@pytest.mark.parametrize(("stabilization", "queued"), [("5m", False), ("0s", True)])
def test_only_a_window_of_its_own_is_a_slot(stabilization: str, queued: bool) -> None:  # a parameter
    world = World(spec={"rollout": {"stabilization": stabilization}})
    world.rolled_out("laya:en")
    world.rolled_out("laya:multilingual")
    world.wants("nli:latest")
    assert limited(world).reconcile().queued is queued


def test_the_way_back_is_never_queued() -> None:
    world = World()
    old = world.rolled_out("laya:en")
    new = world.rolled_out("laya:multilingual")
    world.pods(new, ServingFacts(exists=True, crash_looping=True))
    decision = limited(world).reconcile()
    assert decision.status.stable_revision is not None
    assert decision.status.stable_revision.hash == old.hash


def test_a_spec_that_returns_to_the_stable_leaves_the_queue() -> None:
    world, _ = serving_world()
    world.wants("laya:multilingual")
    world.reconcile()
    world.wants("laya:en")
    decision = world.reconcile()
    assert not decision.queued
    assert decision.status.phase is Phase.READY

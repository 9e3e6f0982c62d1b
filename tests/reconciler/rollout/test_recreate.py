"""Strategy Recreate: the stable stops first, and comes back when its successor comes to nothing (spec 5.5 and 5.9)."""

from __future__ import annotations

import pytest

from api.conditions import ConditionType, Phase, Reason, find_condition
from api.rollout import Strategy
from api.status import RevisionStatus
from reconciler.rollout import Decision, PrefetchFacts, PrefetchState, RolloutResult, ServingFacts, StoreState
from tests.reconciler.rollout.troubles import Trouble, misconfigured, refused, tag_missing
from tests.reconciler.rollout.worlds import World, condition, planned, selected, stopped, told


def recreating(replicas: int = 1) -> tuple[World, RevisionStatus]:
    world = World(spec={"replicas": replicas, "rollout": {"strategy": "Recreate"}})
    stable = world.rolled_out("laya:en")
    return world, stable


def caching(world: World, model: str = "laya:multilingual") -> RevisionStatus:
    wanted = world.wants(model)
    world.reconcile()
    return wanted


def stopped_for(world: World, model: str = "laya:multilingual") -> RevisionStatus:
    """Take a candidate to the point where the stable's Pods are gone for it."""
    wanted = caching(world, model)
    world.prefetched(wanted)
    world.reconcile()
    assert world.status.stable_revision is not None
    world.pods_are_gone(world.status.stable_revision)
    return wanted


def promoted(world: World, model: str = "laya:multilingual") -> RevisionStatus:
    wanted = stopped_for(world, model)
    world.reconcile()
    world.pods_ready(wanted, world.spec["replicas"])
    world.reconcile()
    world.reconcile()
    assert world.status.stable_revision == wanted
    return wanted


def unresolved(world: World) -> Decision:
    """Let the registry not have answered yet."""
    world.resolution = None
    return world.reconcile()


def test_a_first_rollout_has_nothing_to_stop() -> None:
    world, _ = recreating()
    assert "StableStopped" not in world.said
    assert world.status.phase is Phase.READY


def test_the_stable_serves_while_the_candidate_is_prefetched() -> None:
    world, stable = recreating()
    caching(world)
    decision = world.reconcile()
    assert decision.status.phase is Phase.CACHING
    assert planned(decision)[stable.hash]
    assert stopped(decision) == set()


def test_the_stable_is_stopped_before_the_candidate_starts_and_recorded_before_it_is_stopped() -> None:
    world, stable = recreating()
    wanted = caching(world)
    world.prefetched(wanted)
    decision = world.reconcile()
    assert decision.status.stable_stopped_for_revision == wanted.hash
    assert told(decision) == ["Cached", "StableStopped", "RevisionStarting"]
    assert decision.results == (RolloutResult.STABLE_STOPPED,)
    assert stopped(decision) == {stable.hash}
    assert planned(decision) == {stable.hash: True, wanted.hash: False}
    again = world.reconcile()
    assert planned(again) == {stable.hash: True, wanted.hash: False}
    assert told(again) == []
    assert condition(again, ConditionType.READY).reason == Reason.NO_MODEL_READY_PODS
    assert again.requeue_after == 10
    world.pods_are_gone(stable)
    started = world.reconcile()
    assert planned(started) == {stable.hash: True, wanted.hash: True}
    assert stopped(started) == {stable.hash}
    assert selected(started) == stable.hash


def test_the_previous_revision_stays_stopped_in_the_window_and_goes_with_it() -> None:
    world, stable = recreating()
    wanted = promoted(world)
    previous = world.status.previous_revision
    assert previous is not None
    assert previous.strategy is Strategy.RECREATE
    assert world.status.stable_stopped_for_revision == ""
    decision = world.reconcile()
    assert stopped(decision) == {stable.hash}
    assert decision.status.phase is Phase.READY
    world.passes(301)
    world.reconcile()
    assert planned(world.reconcile()) == {wanted.hash: True}


@pytest.mark.parametrize("ending", ["prefetch", "deadline", "superseded", "back"])
def test_a_stable_that_was_stopped_for_nothing_serves_again_and_that_is_told_once(ending: str) -> None:
    world, stable = recreating()
    wanted = stopped_for(world)
    world.reconcile()
    if ending == "prefetch":
        world.prefetched(wanted, PrefetchFacts(state=PrefetchState.FAILED, failure="DigestMismatch", permanent=True))
    elif ending == "deadline":
        world.passes(601)
    else:
        world.wants("laya:en" if ending == "back" else "nli:latest")
    decision = world.reconcile()
    assert stopped(decision) == set()
    assert planned(decision)[stable.hash]
    assert selected(decision) == stable.hash
    world.pods_ready(stable)
    restored = world.reconcile()
    assert told(restored) == ["StableRestored"]
    assert restored.results == (RolloutResult.STABLE_RESTORED,)
    assert restored.status.stable_stopped_for_revision == ""
    assert told(world.reconcile()) == []


def test_editing_the_strategy_halfway_stops_and_starts_nothing() -> None:
    world, stable = recreating()
    wanted = stopped_for(world)
    world.spec = {**world.spec, "rollout": {"strategy": "BlueGreen"}}
    decision = world.reconcile()
    assert stopped(decision) == {stable.hash}
    assert planned(decision)[wanted.hash]


def test_a_revision_that_was_stopped_itself_waits_for_room_when_it_is_wanted_again() -> None:
    world, stable = recreating()
    successor = promoted(world)
    world.pods(stable, ServingFacts(exists=True))
    assert world.wants("laya:en") == stable
    decision = world.reconcile()
    assert decision.status.stable_stopped_for_revision == stable.hash
    assert stopped(decision) == {successor.hash}
    assert planned(decision) == {successor.hash: True, stable.hash: False}
    world.pods_are_gone(successor)
    assert planned(world.reconcile()) == {successor.hash: True, stable.hash: True}


def unhealthy(world: World) -> tuple[RevisionStatus, RevisionStatus]:
    """Promote, let the new Pods crash; return the failed revision and the one to go back to."""
    before = world.status.stable_revision
    assert before is not None
    failed = promoted(world)
    world.pods(failed, ServingFacts(exists=True, pods=1, crash_looping=True))
    return failed, before


def test_a_rollback_stops_the_failed_revision_before_it_starts_the_old_one() -> None:
    world, _ = recreating()
    failed, target = unhealthy(world)
    decision = world.reconcile()
    assert told(decision) == ["RolledBackAfterPromotion"]
    assert decision.results == (RolloutResult.ROLLED_BACK_AFTER_PROMOTION,)
    assert decision.status.recreate_rollback is not None
    assert decision.status.recreate_rollback.target == target
    assert condition(decision, ConditionType.READY).reason == Reason.POST_PROMOTION_UNHEALTHY
    assert stopped(decision) == {failed.hash, target.hash}
    assert selected(decision) == failed.hash
    assert told(world.reconcile()) == []
    world.pods_are_gone(failed)
    decision = world.reconcile()
    assert stopped(decision) == {failed.hash}
    assert selected(decision) == failed.hash


def test_the_first_ready_pod_of_the_old_revision_moves_the_traffic_and_ends_the_rollback() -> None:
    world, _ = recreating(replicas=2)
    failed, target = unhealthy(world)
    world.reconcile()
    world.pods_are_gone(failed)
    world.reconcile()
    world.pods_ready(target, 1)
    decision = world.reconcile()
    assert told(decision) == ["StableRestored"]
    assert decision.results == (RolloutResult.STABLE_RESTORED,)
    assert selected(decision) == target.hash
    assert stopped(decision) == {failed.hash}, "it goes only when the traffic has moved"
    assert decision.status.phase is Phase.ROLLED_BACK
    assert decision.status.failed_revision is not None
    assert decision.status.failed_revision.reason == Reason.POST_PROMOTION_UNHEALTHY
    assert decision.status.failed_revision.message == "a container is in CrashLoopBackOff"
    settled = world.reconcile()
    assert settled.status.recreate_rollback is None
    assert planned(settled) == {target.hash: True}
    assert condition(settled, ConditionType.READY).reason == Reason.CANDIDATE_REJECTED
    before = world.status
    assert world.reconcile().status == before


def test_a_rollback_that_takes_too_long_ends_failed_and_heals_by_itself_later() -> None:
    world, _ = recreating()
    failed, target = unhealthy(world)
    world.reconcile()
    world.pods_are_gone(failed)
    world.passes(601)
    decision = world.reconcile()
    assert told(decision) == ["RecreateRollbackTimeout"]
    assert decision.status.phase is Phase.FAILED
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.RECREATE_ROLLBACK_TIMEOUT
    assert selected(decision) == target.hash
    resting = world.reconcile()
    assert told(resting) == []
    assert planned(resting) == {target.hash: True}
    world.pods_ready(target)
    healed = world.reconcile()
    assert healed.status.phase is Phase.ROLLED_BACK
    assert condition(healed, ConditionType.READY).status == "True"


def test_a_rollback_to_a_revision_whose_store_is_gone_has_it_refilled_at_once() -> None:
    world, _ = recreating()
    failed, target = unhealthy(world)
    world.store_is(target, StoreState.ABSENT)
    decision = world.reconcile()
    assert decision.status.stable_revision == target
    assert decision.status.failed_revision is not None
    assert decision.status.failed_revision.message == "a container is in CrashLoopBackOff"
    assert told(decision) == ["RolledBackAfterPromotion", "StoreLost"]
    assert selected(decision) == target.hash
    world.store_is(target, StoreState.RECOVERING)
    world.pods_are_gone(failed)
    assert told(world.reconcile()) == []
    assert condition(world.reconcile(), ConditionType.DEGRADED).reason == Reason.STORE_LOST


@pytest.mark.parametrize(
    "trouble",
    [unresolved, refused(Reason.REGISTRY_NOT_ALLOWED), misconfigured(Reason.API_KEY_INVALID), tag_missing],
    ids=["no answer", "refused", "misconfigured", "tag missing"],
)
def test_a_rollback_goes_on_whatever_the_spec_or_the_registry_say_meanwhile(trouble: Trouble) -> None:
    world, _ = recreating()
    failed, target = unhealthy(world)
    world.reconcile()
    world.wants("nli:latest")
    trouble(world)
    world.pods_are_gone(failed)
    assert stopped(world.reconcile()) == {failed.hash}
    world.pods_ready(target)
    assert selected(world.reconcile()) == target.hash


def test_the_recorded_strategy_decides_how_to_go_back_not_the_one_of_today() -> None:
    world, _ = recreating()
    failed, target = unhealthy(world)
    world.spec = {**world.spec, "rollout": {"strategy": "BlueGreen"}}
    assert world.reconcile().status.recreate_rollback is not None
    assert find_condition(world.status.conditions, ConditionType.STABILIZING) is None
    assert selected(world.reconcile()) == failed.hash
    assert stopped(world.reconcile()) == {failed.hash, target.hash}

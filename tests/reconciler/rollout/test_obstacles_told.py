"""What stands in the way of a rollout, or of what serves, is said in every place where people look."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.conditions import ConditionType, Phase, Reason
from api.status import RevisionStatus
from reconciler.rollout import Decision, Obstacle, PrefetchFacts, PrefetchState, ServingFacts, StoreState
from tests.reconciler.rollout.worlds import World, condition

PULL = Obstacle(reason=Reason.IMAGE_PULL_BACK_OFF, kind="Pod", name="pf", words="x:1: not found", remedy="check it")
QUOTA = Obstacle(reason=Reason.FAILED_CREATE, kind="Deployment", name="d", words="exceeded quota", remedy="raise it")


def obstruct(world: World, wanted: RevisionStatus, obstacle: Obstacle | None) -> Decision:
    """Let the Job of a revision, or else its Pods, meet an obstacle."""
    facts = world.revisions[wanted.hash]
    if facts.prefetch.state is PrefetchState.COMPLETE:
        world.pods(wanted, replace(facts.serving, obstacle=obstacle))
    else:
        world.revisions[wanted.hash] = replace(facts, prefetch=replace(facts.prefetch, obstacle=obstacle))
    return world.reconcile()


def caching(world: World, model: str = "laya:en") -> RevisionStatus:
    wanted = world.wants(model)
    world.reconcile()
    return wanted


def starting(world: World, model: str = "laya:en") -> RevisionStatus:
    wanted = caching(world, model)
    world.prefetched(wanted)
    world.reconcile()
    return wanted


def test_a_first_rollout_says_why_its_job_does_not_run_while_it_lasts_and_when_it_ends() -> None:
    world = World()
    wanted = caching(world)
    decision = obstruct(world, wanted, PULL)

    for type_ in (ConditionType.CACHED, ConditionType.READY):
        told = condition(decision, type_)
        assert (told.status, told.reason, told.message) == ("False", Reason.IMAGE_PULL_BACK_OFF, PULL.message)
    assert world.said.count("PrefetchStarted") == 1

    world.passes(1801)
    rejected = world.reconcile()
    failed = rejected.status.failed_revision
    assert failed is not None
    assert failed.reason == Reason.CACHE_TIMEOUT
    assert failed.message.endswith(PULL.message)
    assert condition(rejected, ConditionType.READY).message == failed.message


def test_an_obstacle_that_goes_is_told_no_longer_and_the_prefetch_starts_once() -> None:
    world = World()
    wanted = caching(world)
    obstruct(world, wanted, PULL)
    decision = obstruct(world, wanted, None)

    assert condition(decision, ConditionType.CACHED).reason == Reason.CACHING
    assert condition(decision, ConditionType.READY).reason == Reason.CACHING
    assert world.said.count("PrefetchStarted") == 1


@pytest.mark.parametrize("failure", [None, "BackendUnreachable: no answer"])
def test_the_jobs_own_deadline_takes_its_pods_and_not_what_they_said(failure: str | None) -> None:
    world = World(more={"stack_failure": failure})
    wanted = caching(world)
    obstruct(world, wanted, PULL)
    expired = PrefetchFacts(state=PrefetchState.RUNNING, expired=True)
    world.prefetched(wanted, expired)

    world.passes(1801)
    failed = world.reconcile().status.failed_revision
    assert failed is not None
    assert failed.message.count(PULL.message) == 1


def test_pods_that_cannot_start_are_told_in_the_same_places() -> None:
    world = World()
    wanted = starting(world)
    decision = obstruct(world, wanted, QUOTA)

    told = condition(decision, ConditionType.MODEL_READY)
    assert (told.reason, told.message) == (Reason.FAILED_CREATE, f"0/1 Pods model-ready; {QUOTA.message}")
    assert condition(decision, ConditionType.READY).reason == Reason.FAILED_CREATE
    assert world.said.count("RevisionStarting") == 1

    world.passes(601)
    failed = world.reconcile().status.failed_revision
    assert failed is not None
    assert failed.reason == Reason.START_TIMEOUT
    assert QUOTA.message in failed.message


@pytest.mark.parametrize("begin", [caching, starting])
def test_the_column_shows_it_beside_a_revision_that_serves(begin: object) -> None:
    world = World()
    world.rolled_out("laya:en")
    assert callable(begin)
    wanted = begin(world, "laya:en-better")
    told = condition(obstruct(world, wanted, PULL), ConditionType.READY)

    assert (told.status, told.reason) == ("True", Reason.IMAGE_PULL_BACK_OFF)
    assert told.message.startswith("serving laya:en (")
    assert told.message.endswith(PULL.message)
    assert condition(obstruct(world, wanted, None), ConditionType.READY).reason == Reason.READY


@pytest.mark.parametrize("ready", [0, 1])
def test_a_serving_revision_short_of_pods_says_why(ready: int) -> None:
    world = World(spec={"replicas": 2})
    stable = world.rolled_out("laya:en")
    world.settled()
    world.pods(stable, ServingFacts(exists=True, pods=2, model_ready=ready, obstacle=QUOTA))
    decision = world.reconcile()

    assert decision.status.phase is Phase.DEGRADED
    for type_ in (ConditionType.MODEL_READY, ConditionType.DEGRADED):
        told = condition(decision, type_)
        assert told.reason == (Reason.REPLICAS_NOT_MODEL_READY if ready else Reason.NO_MODEL_READY_PODS)
        assert told.message == f"{ready}/2 Pods model-ready; {QUOTA.message}"
    shown = condition(decision, ConditionType.READY)
    assert (shown.status, shown.reason) == ("True" if ready else "False", Reason.FAILED_CREATE)
    assert world.reconcile().status == decision.status


def test_an_obstacle_of_a_pod_too_many_is_not_told() -> None:
    world = World()
    stable = world.rolled_out("laya:en")
    world.pods(stable, ServingFacts(exists=True, pods=2, model_ready=1, obstacle=QUOTA))

    assert condition(world.reconcile(), ConditionType.READY).reason == Reason.READY


def test_a_rollback_says_why_the_old_revision_does_not_start_again() -> None:
    world = World(spec={"replicas": 1, "rollout": {"strategy": "Recreate"}})
    target = world.rolled_out("laya:en")
    failed = starting(world, "laya:multilingual")
    world.pods_are_gone(target)
    world.reconcile()
    world.pods_ready(failed)
    world.reconcile()
    world.reconcile()
    world.pods(failed, ServingFacts(exists=True, pods=1, crash_looping=True))
    world.reconcile()
    world.pods_are_gone(failed)
    world.reconcile()
    told = condition(obstruct(world, target, PULL), ConditionType.READY)
    assert (told.status, told.reason) == ("False", Reason.IMAGE_PULL_BACK_OFF)
    assert told.message.endswith(PULL.message)

    world.passes(601)
    given_up = world.reconcile().status.failed_revision
    assert given_up is not None
    assert given_up.reason == Reason.RECREATE_ROLLBACK_TIMEOUT
    assert given_up.message.endswith(PULL.message)
    shown = condition(world.reconcile(), ConditionType.READY)
    assert (shown.status, shown.reason) == ("False", Reason.IMAGE_PULL_BACK_OFF)


def test_a_store_that_cannot_be_refilled_says_why() -> None:
    world = World()
    stable = world.rolled_out("laya:en")
    world.store_is(stable, StoreState.ABSENT)
    for _ in range(3):
        world.reconcile()
    decision = obstruct(world, stable, PULL)

    told = condition(decision, ConditionType.DEGRADED)
    assert told.reason == Reason.STORE_LOST
    assert told.message.endswith(PULL.message)

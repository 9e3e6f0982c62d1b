"""What has to be mended first (a key, a version, a rule): nothing goes further, and nothing that is there goes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from api.conditions import ConditionType, Phase, Reason, find_condition
from api.status import RevisionStatus
from reconciler.rollout import Decision, Refusal
from tests.reconciler.rollout.troubles import CONFIGURATION, misconfigured, serving_world, wanted_of
from tests.reconciler.rollout.worlds import World, condition, planned, selected, stopped, told


def caching(world: World) -> RevisionStatus:
    world.wants("laya:multilingual")
    world.reconcile()
    return wanted_of(world)


def starting(world: World) -> RevisionStatus:
    wanted = caching(world)
    world.prefetched(wanted)
    world.reconcile()
    return wanted


def parked(world: World) -> RevisionStatus:
    world.spec = {**world.spec, "rollout": {"promotion": "Manual"}}
    wanted = world.ready("laya:multilingual")
    assert world.reconcile().status.phase is Phase.AWAITING_PROMOTION
    return wanted


def jobs(decision: Decision) -> set[str]:
    assert decision.stack is not None
    return {plan.revision.hash for plan in decision.stack.revisions if plan.prefetch}


@pytest.mark.parametrize("reason", CONFIGURATION)
@pytest.mark.parametrize(("reached", "serves"), [(caching, False), (starting, True), (parked, True)])
def test_a_candidate_keeps_what_it_has_and_gets_nothing_new(
    reached: Callable[[World], RevisionStatus], serves: bool, reason: Reason
) -> None:
    world = serving_world()
    stable = world.status.stable_revision
    candidate = reached(world)
    assert stable is not None
    decision = misconfigured(reason)(world)
    assert planned(decision) == {stable.hash: True, candidate.hash: serves}
    assert candidate.hash in jobs(decision)
    assert selected(decision) == stable.hash
    assert condition(decision, ConditionType.DEGRADED).reason == reason
    assert decision.status.candidate_revision == candidate
    world.more = {}
    assert world.reconcile().status.candidate_revision == candidate
    assert world.jobs == 2, "the candidate's model would be downloaded again"


def test_a_candidate_without_anything_gets_nothing() -> None:
    world = serving_world()
    stable = world.status.stable_revision
    candidate = caching(world)
    assert stable is not None
    del world.revisions[candidate.hash]
    assert planned(misconfigured(Reason.DOWNLOAD_TOKEN_INVALID)(world)) == {stable.hash: True}


@pytest.mark.parametrize("resolved", [True, False], ids=["a Secret", "the image"])
def test_a_candidate_that_the_stable_was_stopped_for_gives_way_to_it(resolved: bool) -> None:
    world = serving_world(rollout={"strategy": "Recreate"})
    stable = world.status.stable_revision
    assert stable is not None
    starting(world)
    assert stopped(world.reconcile()) == {stable.hash}
    if not resolved:
        world.resolution = None
    decision = misconfigured(Reason.API_KEY_INVALID)(world)
    assert decision.status.candidate_revision is None
    assert told(decision) == ["CandidateSuperseded"]
    assert stopped(decision) == set()
    assert planned(decision) == {stable.hash: True}


@pytest.mark.parametrize("serving", [True, False])
def test_the_registry_is_not_asked_for_what_could_not_be_used(serving: bool) -> None:
    world = serving_world() if serving else World()
    world.wants("laya:multilingual")
    world.resolution = None
    world.more = {"refusals": (Refusal(reason=Reason.RUNTIME_VERSION_UNSUPPORTED, message="mend it"),)}
    decision = world.reconcile()
    assert not decision.resolve
    assert decision.requeue_after == 60.0
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.RUNTIME_VERSION_UNSUPPORTED


def test_a_conflict_leaves_the_cluster_alone_and_goes_on_proving_what_serves() -> None:
    world = serving_world(replicas=2)
    stable = world.status.stable_revision
    assert stable is not None
    world.pods_ready(stable, 1)
    world.more = {"conflict": "PodDisruptionBudget default/router-1 is another's"}
    decision = world.reconcile()
    assert decision.stack is None
    assert decision.probe == (stable.hash,)
    assert decision.status.replicas is not None
    assert decision.status.replicas.model_ready == 1
    assert find_condition(decision.status.conditions, ConditionType.STABILIZING) is None

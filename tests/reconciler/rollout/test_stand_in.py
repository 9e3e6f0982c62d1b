"""A promoted revision that loses its Pods through no fault of its own: who serves, who is blamed, how it returns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api.conditions import ConditionType, Phase, Reason, find_condition
from api.status import RevisionStatus
from reconciler.rollout import ServingFacts
from tests.reconciler.rollout.troubles import promoted_world
from tests.reconciler.rollout.worlds import World, condition, planned, selected, told

GONE = ServingFacts(exists=True, away=1)
"""Its only Pod was evicted or deleted, and another one starts, or waits for a node."""


def promoted(**spec: Any) -> tuple[World, RevisionStatus, RevisionStatus]:
    """A world right after a promotion, the old revision and the new one."""
    world = promoted_world(**spec)
    previous, stable = world.status.previous_revision, world.status.stable_revision
    assert previous is not None
    assert stable is not None
    return world, previous.revision, stable


def standing_in(**spec: Any) -> tuple[World, RevisionStatus, RevisionStatus]:
    """A world in which the old revision serves, since the new one has no Pods."""
    world, old, new = promoted(**spec)
    world.pods(new, GONE)
    world.reconcile()
    assert world.service == old.hash
    return world, old, new


@pytest.mark.parametrize("seconds", [10, 60, 301, 86400])
def test_pods_that_others_took_away_are_no_fault_of_the_revision(seconds: int) -> None:
    world, old, new = standing_in()
    world.passes(seconds)
    decision = world.reconcile()
    assert decision.status.stable_revision == new
    assert decision.status.failed_revision is None
    assert decision.status.previous_revision is not None
    assert selected(decision) == old.hash
    assert {old.hash, new.hash} <= planned(decision).keys()
    assert decision.probe == (new.hash, old.hash)
    assert decision.status.phase is Phase.DEGRADED


def test_who_serves_meanwhile_is_told_once() -> None:
    world, old, new = promoted()
    world.pods(new, GONE)
    decision = world.reconcile()
    assert told(decision) == ["ServedByPrevious"]
    assert condition(decision, ConditionType.STABILIZING).reason == Reason.SERVED_BY_PREVIOUS
    assert old.hash in condition(decision, ConditionType.DEGRADED).message
    assert condition(decision, ConditionType.READY).status == "False", "traffic has not moved yet"
    decision = world.reconcile()
    assert told(decision) == []
    ready = condition(decision, ConditionType.READY)
    assert (ready.status, ready.reason) == ("True", Reason.SERVED_BY_PREVIOUS)
    assert old.hash in ready.message


def test_traffic_returns_with_the_pods_and_the_window_ends_as_ever() -> None:
    world, _, new = standing_in()
    world.passes(400)
    world.pods_ready(new)
    decision = world.reconcile()
    assert selected(decision) == new.hash
    assert told(decision) == ["StableRestored"]
    assert decision.status.previous_revision is not None, "traffic is still on it"
    decision = world.reconcile()
    assert told(decision) == ["Stabilized"]
    assert decision.status.previous_revision is None
    assert decision.status.phase is Phase.READY


def test_each_move_of_traffic_rests_on_pods_that_have_to_be_confirmed() -> None:
    world, old, new = promoted(replicas=4)
    world.pods(new, replace(GONE, away=4))
    away = world.reconcile().rests_on
    assert away is not None
    assert (away.revision, away.count) == (old.hash, 1)
    assert world.reconcile().rests_on is None, "it has moved"
    world.pods_ready(new, 4)
    back = world.reconcile().rests_on
    assert back is not None
    assert (back.revision, back.count) == (new.hash, 2)


def test_traffic_does_not_return_to_fewer_pods_than_the_window_asks_for() -> None:
    world, old, new = promoted(replicas=4)
    world.pods(new, ServingFacts(exists=True, away=4))
    world.reconcile()
    world.pods(new, ServingFacts(exists=True, model_ready=1, away=3))
    assert selected(world.reconcile()) == old.hash
    world.pods(new, ServingFacts(exists=True, model_ready=2, away=2))
    assert selected(world.reconcile()) == new.hash


def test_without_a_predecessor_that_serves_traffic_stays() -> None:
    world, old, new = promoted()
    world.pods(old, ServingFacts(exists=True))
    world.pods(new, GONE)
    decision = world.reconcile()
    assert selected(decision) == new.hash
    assert condition(decision, ConditionType.STABILIZING).reason == Reason.WAITING_FOR_PODS
    world.passes(3600)
    assert world.reconcile().status.failed_revision is None


@pytest.mark.parametrize(
    "pods",
    [
        ServingFacts(exists=True, mismatched_gates=(Reason.DIGEST_MISMATCH,)),
        ServingFacts(exists=True, crash_looping=True, away=1),
        ServingFacts(exists=True, progress_deadline_exceeded=True, away=1),
    ],
)
def test_evidence_takes_a_revision_back_at_once_whoever_serves(pods: ServingFacts) -> None:
    world, old, new = standing_in()
    world.pods(new, pods)
    decision = world.reconcile()
    assert decision.status.failed_revision is not None
    assert decision.status.failed_revision.hash == new.hash
    assert selected(decision) == old.hash


def test_pods_that_run_without_their_proof_are_evidence_after_a_while() -> None:
    world, _, new = promoted()
    world.pods(new, ServingFacts(exists=True, pods=1))
    world.reconcile()
    world.passes(29)
    assert world.reconcile().status.failed_revision is None
    world.passes(1)
    assert world.reconcile().status.failed_revision is not None


def test_a_progress_deadline_that_passed_for_want_of_a_node_is_no_evidence() -> None:
    world, old, new = promoted()
    world.pods(new, replace(GONE, progress_deadline_exceeded=True, held_up=True))
    world.passes(601)
    decision = world.reconcile()
    assert decision.status.failed_revision is None
    assert selected(decision) == old.hash


@pytest.mark.parametrize("replicas", [2, 3, 10])
def test_scaling_up_is_no_shortage(replicas: int) -> None:
    world, _, new = promoted()
    world.spec = {**world.spec, "replicas": replicas}
    world.pods(new, ServingFacts(exists=True, model_ready=1, away=replicas - 1))
    for seconds in (0, 40, 240, 60):
        world.passes(seconds)
        decision = world.reconcile()
        assert selected(decision) == new.hash
        assert decision.status.failed_revision is None
    assert decision.status.previous_revision is None, "the window ended"


def test_pods_that_were_added_count_once_they_were_ready() -> None:
    world, _, new = promoted()
    world.spec = {**world.spec, "replicas": 4}
    world.pods_ready(new, 4)
    world.reconcile()
    world.pods(new, ServingFacts(exists=True, model_ready=1))
    assert condition(world.reconcile(), ConditionType.STABILIZING).reason == Reason.POST_PROMOTION_UNHEALTHY


def test_a_record_of_an_earlier_version_is_completed() -> None:
    world, _, new = promoted(replicas=3)
    previous = world.status.previous_revision
    assert previous is not None
    world.status = world.status.model_copy(
        update={"previous_revision": previous.model_copy(update={"proved_replicas": 0})}
    )
    world.pods(new, ServingFacts(exists=True, model_ready=1, away=2))
    completed = world.reconcile().status.previous_revision
    assert completed is not None
    assert completed.proved_replicas == 1


def test_an_edit_goes_on_from_the_revision_that_serves() -> None:
    world, old, new = standing_in()
    wanted = world.wants("laya:en-better")
    decision = world.reconcile()
    status = decision.status
    assert status.stable_revision == old
    assert status.candidate_revision == wanted
    assert status.failed_revision is None
    assert "CandidateSuperseded" in told(decision)
    assert selected(decision) == old.hash
    assert new.hash not in planned(decision)


def test_an_edit_back_to_the_old_revision_stays_on_it() -> None:
    world, old, new = standing_in()
    world.wants(old.model)
    decision = world.reconcile()
    assert decision.status.stable_revision == old
    assert decision.status.candidate_revision is None
    assert new.hash not in planned(decision)
    assert find_condition(decision.status.conditions, ConditionType.STABILIZING) is None


@pytest.mark.parametrize("switching_to", ["new", None])
def test_an_edit_waits_until_traffic_has_left_what_is_given_up(switching_to: str | None) -> None:
    world, old, new = standing_in()
    world.service = old.hash if switching_to else new.hash
    world.more = {"switching_to": new.hash if switching_to else None}
    world.wants("laya:en-better")
    decision = world.reconcile()
    assert decision.status.stable_revision == new
    assert decision.status.candidate_revision is None
    assert {old.hash, new.hash} <= planned(decision).keys()


def test_a_window_does_not_end_while_traffic_is_about_to_move() -> None:
    world, old, _ = promoted()
    world.passes(400)
    world.more = {"switching_to": old.hash}
    assert world.reconcile().status.previous_revision is not None
    world.more = {}
    assert world.reconcile().status.previous_revision is None


def test_a_recreate_rollout_waits_for_its_own_pods() -> None:
    world = World(spec={"rollout": {"strategy": "Recreate"}})
    old = world.rolled_out("laya:en")
    world.settled()
    new = world.wants("laya:multilingual")
    world.reconcile()
    world.prefetched(new)
    world.reconcile()
    world.pods_are_gone(old)
    world.reconcile()
    world.pods_ready(new)
    world.reconcile()
    world.pods(new, GONE)
    for seconds in (0, 60, 600):
        world.passes(seconds)
        decision = world.reconcile()
        assert decision.status.recreate_rollback is None
        assert selected(decision) == new.hash
    assert condition(decision, ConditionType.STABILIZING).reason == Reason.WAITING_FOR_PODS

"""Rows about the course of a rollout: facts in, decision out; the section of the specification is in each test's id.

Only rows that no other test of this folder shows; the others have tests by subject.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from api.conditions import ConditionType, Phase, Reason, find_condition
from api.keys import RETRY_ANNOTATION
from api.status import RevisionStatus
from reconciler.rollout import Refusal, ResolutionFailed, RuntimeUpdate, ServingFacts, TagMissing
from tests.reconciler.rollout.troubles import prefetch_failed, promoted_world, rows, serving_world
from tests.reconciler.rollout.worlds import World, condition, planned, selected, told


@pytest.mark.parametrize(
    ("ready", "message"),
    rows(("5.5 step 9-none", 0, "0/3 Pods model-ready"), ("5.5 step 9-some", 2, "2/3 Pods model-ready")),
)
def test_too_few_ready_pods_keep_a_candidate_starting(ready: int, message: str) -> None:
    world = World(spec={"replicas": 3})
    wanted = world.wants("laya:en")
    world.reconcile()
    world.prefetched(wanted)
    world.reconcile()
    world.pods_ready(wanted, ready)
    decision = world.reconcile()
    found = condition(decision, ConditionType.MODEL_READY)
    assert (found.status, found.reason, found.message) == ("False", Reason.STARTING, message)
    assert decision.status.phase is Phase.STARTING
    assert decision.requeue_after == 10


@pytest.mark.parametrize(
    ("timeouts", "prepare", "phase", "seconds"),
    rows(
        ("5.2-caching by default", {}, "nothing", Phase.CACHING, 1800),
        ("5.2-caching as declared", {"caching": "2m"}, "nothing", Phase.CACHING, 120),
        ("5.2-starting by default", {}, "prefetched", Phase.STARTING, 600),
        ("5.2-starting as declared", {"starting": "2m"}, "prefetched", Phase.STARTING, 120),
    ),
)
def test_a_deadline_is_exceeded_only_after_its_last_second(
    timeouts: dict[str, str], prepare: str, phase: Phase, seconds: int
) -> None:
    world = World(spec={"rollout": {"timeouts": timeouts}})
    wanted = world.wants("laya:en")
    world.reconcile()
    if prepare == "prefetched":
        world.prefetched(wanted)
        world.reconcile()
    world.passes(seconds)
    assert world.reconcile().status.phase is phase
    world.passes(1)
    assert world.reconcile().status.phase is Phase.FAILED


def test_5_5_step_2_a_new_candidate_ends_the_window_of_its_predecessor() -> None:
    world = promoted_world()
    assert world.status.previous_revision is not None
    third = world.wants("nli:latest")
    decision = world.reconcile()
    assert decision.status.candidate_revision == third
    assert decision.status.previous_revision is None
    assert find_condition(decision.status.conditions, ConditionType.STABILIZING) is None


def test_5_6_step_2_what_a_promotion_records() -> None:
    world = serving_world()
    old = world.status.stable_revision
    world.passes(100)
    wanted = world.ready("laya:multilingual")
    decision = world.reconcile()
    status = decision.status
    assert status.stable_revision == wanted
    assert status.candidate_revision is None
    assert status.failed_revision is None
    assert status.previous_revision is not None
    assert status.previous_revision.revision == old
    assert status.previous_revision.promoted_at == status.last_promotion_time == world.now
    promoted = condition(decision, ConditionType.PROMOTED)
    assert (promoted.status, promoted.reason) == ("True", Reason.PROMOTED)
    assert promoted.message == f"promoted laya:multilingual@sha256:{wanted.digest[:8]} (revision {wanted.hash})"
    assert status.phase is Phase.READY
    assert decision.requeue_after == 30


@pytest.mark.parametrize("stable", [False, True], ids=["5.7-without a stable", "5.7-with a stable"])
def test_a_rejected_revision_stays_rejected_with_its_reason(*, stable: bool) -> None:
    world = serving_world() if stable else World()
    wanted = world.wants("laya:multilingual")
    first = prefetch_failed(world)
    for _ in range(3):
        world.passes(3600)
        decision = world.reconcile()
        assert decision.status.failed_revision == first.status.failed_revision
        assert condition(decision, ConditionType.DEGRADED).reason == Reason.PREFETCH_FAILED
        assert find_condition(decision.status.conditions, ConditionType.CACHED) is None
        assert wanted.hash not in planned(decision)
        assert not decision.events
        assert not decision.results


def test_5_7_a_record_without_a_reason_gets_the_general_one() -> None:
    world = serving_world()
    world.wants("laya:multilingual")
    prefetch_failed(world)
    failed = world.status.failed_revision
    assert failed is not None
    world.status = world.status.model_copy(update={"failed_revision": failed.model_copy(update={"reason": ""})})
    assert condition(world.reconcile(), ConditionType.DEGRADED).reason == Reason.REVISION_FAILED


def test_5_7_a_rejection_is_cleared_by_a_spec_that_asks_for_another_revision() -> None:
    world = serving_world()
    world.wants("laya:multilingual")
    prefetch_failed(world)
    third = world.wants("nli:latest")
    decision = world.reconcile()
    assert decision.status.failed_revision is None
    assert decision.status.candidate_revision == third
    assert decision.status.phase is Phase.CACHING


@pytest.mark.parametrize(
    ("window", "age", "kept"),
    rows(
        ("5.8-grace of no window", "0s", 29, True),
        ("5.8-after the grace", "0s", 30, False),
        ("5.8-window", "1m", 59, True),
        ("5.8-after the window", "1m", 60, False),
        ("5.8-default window", "5m", 299, True),
        ("5.8-after the default window", "5m", 300, False),
    ),
)
def test_the_previous_revision_is_kept_for_the_window_and_never_less_than_the_grace(
    window: str, age: int, kept: bool
) -> None:
    world = promoted_world(rollout={"stabilization": window})
    previous = world.status.previous_revision
    assert previous is not None
    world.now = previous.promoted_at + timedelta(seconds=age)
    assert (previous.hash in planned(world.reconcile())) is kept


@pytest.mark.parametrize(
    ("replicas", "needed"),
    rows(("5.9-1", 1, 1), ("5.9-2", 2, 1), ("5.9-3", 3, 2), ("5.9-4", 4, 2), ("5.9-5", 5, 3)),
)
def test_a_promoted_revision_needs_half_of_its_pods(replicas: int, needed: int) -> None:
    world = promoted_world(replicas=replicas)
    stable = world.status.stable_revision
    assert stable is not None
    world.pods_ready(stable, needed)
    decision = world.reconcile()
    assert condition(decision, ConditionType.STABILIZING).status == "True"
    world.pods_ready(stable, needed - 1)
    short = condition(world.reconcile(), ConditionType.STABILIZING)
    assert (short.status, short.reason) == ("False", Reason.POST_PROMOTION_UNHEALTHY)
    world.pods_ready(stable, needed)
    assert condition(world.reconcile(), ConditionType.STABILIZING).status == "True"


@pytest.mark.parametrize(
    ("age", "pods", "event"),
    rows(
        ("5.9-healthy at the end", 301, ServingFacts(exists=True, model_ready=1), "Stabilized"),
        ("5.9-short at the end", 301, ServingFacts(exists=True), "RolledBackAfterPromotion"),
        ("5.9-rolling at the end", 301, ServingFacts(exists=True, rolling=True), None),
        ("5.9-short for a moment", 100, ServingFacts(exists=True), None),
    ),
)
def test_how_a_window_ends(age: int, pods: ServingFacts, event: str | None) -> None:
    world = promoted_world()
    stable = world.status.stable_revision
    assert stable is not None
    world.pods(stable, pods)
    world.passes(age)
    decision = world.reconcile()
    assert told(decision) == ([] if event is None else [event])
    assert (decision.status.previous_revision is None) is (event is not None)


@pytest.mark.parametrize(
    "unusable",
    [
        {"resolution": TagMissing(message="no such tag")},
        {"resolution": ResolutionFailed(message="connection refused")},
        {"resolution": None},
        {"more": {"preflight": Refusal(reason=Reason.REGISTRY_NOT_ALLOWED, message="not allowed")}},
    ],
)
def test_5_9_a_window_goes_on_under_a_spec_that_cannot_be_followed(unusable: dict[str, Any]) -> None:
    for pods, event in (
        (ServingFacts(exists=True, model_ready=1), "Stabilized"),
        (ServingFacts(exists=True, crash_looping=True), "RolledBackAfterPromotion"),
    ):
        world = replace(promoted_world(), **unusable)
        new = world.status.stable_revision
        assert new is not None
        world.pods(new, pods)
        world.passes(301)
        decision = world.reconcile()
        assert event in told(decision)
        assert decision.status.previous_revision is None
        went_back = decision.status.stable_revision != new
        assert went_back is (event != "Stabilized")


def test_5_9_a_rollback_is_recorded_before_the_service_moves() -> None:
    world = promoted_world()
    new, previous = world.status.stable_revision, world.status.previous_revision
    assert new is not None
    assert previous is not None
    world.pods(new, ServingFacts(exists=True, crash_looping=True))
    decision = world.reconcile()
    status = decision.status
    assert status.stable_revision == previous.revision
    assert status.failed_revision is not None
    assert (status.failed_revision.hash, status.failed_revision.reason) == (new.hash, "PostPromotionUnhealthy")
    assert status.phase is Phase.ROLLED_BACK
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.POST_PROMOTION_UNHEALTHY
    ready = condition(decision, ConditionType.READY)
    assert (ready.status, ready.reason) == ("True", Reason.CANDIDATE_REJECTED)
    assert decision.results == ("rolled_back_after_promotion",)


def world_before_the_switch_back() -> tuple[World, RevisionStatus]:
    """A world that has given up what it promoted, while traffic is still on that revision."""
    world = promoted_world()
    new = world.status.stable_revision
    assert new is not None
    world.pods(new, ServingFacts(exists=True, crash_looping=True))
    world.reconcile()
    world.service = new.hash  # The operation that switches it is not there yet.
    return world, new


def test_5_6_a_spec_that_returns_before_the_switch_forgets_nothing_that_is_selected() -> None:
    world, new = world_before_the_switch_back()
    world.wants("laya:en")
    decision = world.reconcile()
    assert new.hash in planned(decision)
    assert decision.status.failed_revision is not None


def test_5_7_a_retry_waits_until_traffic_has_left_what_failed() -> None:
    world, new = world_before_the_switch_back()
    world.annotations[RETRY_ANNOTATION] = "again"
    decision = world.reconcile()
    assert new.hash in planned(decision)
    assert decision.status.last_retry_token != "again"
    decision = world.reconcile()
    assert decision.status.last_retry_token == "again"
    assert decision.status.failed_revision is None


def test_5_9_without_a_window_nothing_is_rolled_back() -> None:
    world = promoted_world(rollout={"stabilization": "0s"})
    stable = world.status.stable_revision
    assert stable is not None
    world.pods(stable, ServingFacts(exists=True, crash_looping=True))
    world.passes(10)
    decision = world.reconcile()
    assert decision.status.stable_revision == stable
    assert find_condition(decision.status.conditions, ConditionType.STABILIZING) is None


@pytest.mark.parametrize(
    ("rollout", "first", "parked"),
    rows(
        ("5.12-Automatic", {"promotion": "Automatic"}, False, False),
        ("5.12-Manual", {"promotion": "Manual"}, False, True),
        ("5.12-Manual, first revision", {"promotion": "Manual"}, True, False),
        ("5.12-deprecated alias", {"manualPromotion": True}, False, True),
        ("5.12-deprecated alias, first revision", {"manualPromotion": True}, True, False),
    ),
)
def test_which_promotion_policy_parks_a_ready_candidate(rollout: dict[str, Any], first: bool, parked: bool) -> None:
    world = World() if first else serving_world()
    world.spec = {**world.spec, "rollout": rollout}
    wanted = world.ready("laya:multilingual")
    decision = world.reconcile()
    assert (decision.status.phase is Phase.AWAITING_PROMOTION) is parked
    assert (decision.status.stable_revision == wanted) is not parked
    if parked:
        pending = condition(decision, ConditionType.PROMOTED)
        assert (pending.status, pending.reason) == ("False", Reason.PROMOTION_PENDING)
        assert told(decision) == ["AwaitingPromotion"]
        assert decision.requeue_after == 60


def test_5_13_an_available_runtime_is_told_once_and_withdrawn_when_it_runs() -> None:
    world = serving_world()
    world.more = {"runtime_update": RuntimeUpdate(running="0.10.0", available="0.12.0")}
    decision = world.reconcile()
    found = condition(decision, ConditionType.RUNTIME_UPDATE_AVAILABLE)
    assert found.status == "True"
    assert "0.10.0" in found.message
    assert "0.12.0" in found.message
    assert told(decision) == ["RuntimeUpdateAvailable"]
    assert told(world.reconcile()) == []
    world.more = {}
    decision = world.reconcile()
    assert find_condition(decision.status.conditions, ConditionType.RUNTIME_UPDATE_AVAILABLE) is None


@pytest.mark.parametrize(
    ("edit", "phase", "requeue"),
    rows(
        ("5.15-replicas", {"replicas": 2}, Phase.DEGRADED, 10),
        ("5.15-rollout", {"rollout": {"stabilization": "1h", "promotion": "Manual"}}, Phase.READY, 2),
        ("5.15-auth", {"auth": {"apiKeySecretRef": {"name": "key", "key": "key"}}}, Phase.READY, 2),
    ),
)
def test_an_edit_in_place_starts_no_rollout(edit: dict[str, Any], phase: Phase, requeue: float) -> None:
    world = serving_world()
    stable = world.status.stable_revision
    assert stable is not None
    world.spec = {**world.spec, **edit}
    world.generation += 1
    decision = world.reconcile()
    assert decision.status.stable_revision == stable
    assert decision.status.candidate_revision is None
    assert decision.status.phase is phase
    assert decision.requeue_after == requeue
    assert decision.status.observed_generation == world.generation
    assert planned(decision) == {stable.hash: True}


@pytest.mark.parametrize("until", ["caching", "starting", "parked"], ids=lambda until: f"8.2-{until}")
def test_a_lost_deployment_of_the_stable_is_restored_beside_a_candidate(until: str) -> None:
    world = serving_world(rollout={"promotion": "Manual"})
    stable = world.status.stable_revision
    assert stable is not None
    wanted = world.wants("laya:multilingual")
    world.reconcile()
    if until != "caching":
        world.prefetched(wanted)
        world.reconcile()
    if until == "parked":
        world.pods_ready(wanted)
        world.reconcile()
    world.deployment_is_lost(stable)
    decision = world.reconcile()
    assert planned(decision)[stable.hash]
    assert selected(decision) == stable.hash
    assert stable.hash in decision.probe
    assert decision.stack is not None
    assert next(plan for plan in decision.stack.revisions if plan.revision.hash == stable.hash).revision == stable

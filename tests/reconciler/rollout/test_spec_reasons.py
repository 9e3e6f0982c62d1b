"""Reasons, phases and conditions as the specification's tables have them; the section is in each test's id."""

from __future__ import annotations

from typing import Any

import pytest

from api.conditions import ConditionType, Phase, Reason, find_condition
from reconciler.rollout import Refusal, StoreState
from tests.reconciler.rollout.troubles import (
    CONFIGURATION,
    SECURITY,
    Trouble,
    cached_too_slowly,
    conflicting,
    misconfigured,
    prefetch_failed,
    queued,
    refused,
    registry_failing,
    rows,
    serving_world,
    started_too_slowly,
    tag_missing,
    wanted_of,
)
from tests.reconciler.rollout.worlds import World, condition, planned, selected, told

EVALUATION = {"datasetRef": {"configMapRef": {"name": "golden", "key": "cases"}}, "minAccuracy": "0.8"}


@pytest.mark.parametrize(
    ("trouble", "phase", "reason", "resolved", "requeue"),
    rows(
        *((f"9.2-{each}", refused(each), Phase.FAILED, each, "False", None) for each in SECURITY),
        ("9.2-ModelNotFound", tag_missing, Phase.FAILED, Reason.MODEL_NOT_FOUND, "False", None),
        ("9.2-ResolveFailed", registry_failing, Phase.RESOLVING, Reason.RESOLVE_FAILED, "False", None),
        *((f"9.2-{each}", misconfigured(each), Phase.DEGRADED, each, "True", 60) for each in CONFIGURATION),
        ("9.2-PrefetchFailed", prefetch_failed, Phase.FAILED, Reason.PREFETCH_FAILED, "True", 60),
        ("9.2-CacheTimeout", cached_too_slowly, Phase.FAILED, Reason.CACHE_TIMEOUT, "True", 60),
        ("9.2-StartTimeout", started_too_slowly, Phase.FAILED, Reason.START_TIMEOUT, "True", 60),
        ("9.2-RolloutQueued", queued, Phase.PENDING, Reason.ROLLOUT_QUEUED, "True", 10),
        ("9.2-ResourceConflict", conflicting, Phase.PENDING, Reason.RESOURCE_CONFLICT, None, 30),
    ),
)
def test_reason_and_phase_without_a_stable(
    trouble: Trouble, phase: Phase, reason: Reason, resolved: str | None, requeue: float | None
) -> None:
    world = World()
    world.wants("laya:en")
    decision = trouble(world)
    assert decision.status.phase is phase
    ready = condition(decision, ConditionType.READY)
    assert (ready.status, ready.reason) == ("False", reason)
    found = find_condition(decision.status.conditions, ConditionType.RESOLVED)
    assert (found and found.status) == resolved
    assert decision.requeue_after == requeue
    assert not decision.stack or decision.stack.selected is None


@pytest.mark.parametrize(
    ("trouble", "phase", "ready", "degraded", "resolved"),
    rows(
        *((f"9.2-{each}", refused(each), Phase.READY, ("True", "Ready"), None, each) for each in SECURITY),
        ("9.2-ModelNotFound", tag_missing, Phase.READY, ("True", "Ready"), None, Reason.MODEL_NOT_FOUND),
        ("9.2-ResolveFailed", registry_failing, Phase.READY, ("True", "Ready"), None, Reason.RESOLVE_FAILED),
        *(
            (f"9.2-{each}", misconfigured(each), Phase.READY, ("True", "Ready"), each, Reason.RESOLVED)
            for each in CONFIGURATION
        ),
        *(
            (f"9.2-{reason}", trouble, Phase.ROLLED_BACK, ("True", "CandidateRejected"), reason, Reason.RESOLVED)
            for trouble, reason in (
                (prefetch_failed, Reason.PREFETCH_FAILED),
                (cached_too_slowly, Reason.CACHE_TIMEOUT),
                (started_too_slowly, Reason.START_TIMEOUT),
            )
        ),
        ("9.2-RolloutQueued", queued, Phase.PENDING, ("False", "RolloutQueued"), None, Reason.RESOLVED),
    ),
)
def test_reason_and_phase_with_a_stable(
    trouble: Trouble, phase: Phase, ready: tuple[str, str], degraded: Reason | None, resolved: Reason
) -> None:
    world = serving_world()
    stable = world.status.stable_revision
    assert stable is not None
    world.wants("laya:multilingual")
    decision = trouble(world)
    assert decision.status.phase is phase
    found = condition(decision, ConditionType.READY)
    assert (found.status, found.reason) == ready
    bad = find_condition(decision.status.conditions, ConditionType.DEGRADED)
    assert (bad and bad.reason) == degraded
    assert condition(decision, ConditionType.RESOLVED).reason == resolved
    assert planned(decision) == {stable.hash: True}
    assert selected(decision) == stable.hash


@pytest.mark.parametrize("reason", CONFIGURATION, ids=lambda reason: f"5.4-{reason} beside 5.7")
def test_what_has_to_be_mended_is_told_beside_a_rejected_revision(reason: Reason) -> None:
    world = serving_world()
    world.wants("laya:multilingual")
    prefetch_failed(world)
    decision = misconfigured(reason)(world)
    assert decision.status.phase is Phase.ROLLED_BACK
    assert condition(decision, ConditionType.DEGRADED).reason == reason
    assert world.reconcile().status == decision.status
    world.more = {}
    assert condition(world.reconcile(), ConditionType.DEGRADED).reason == Reason.PREFETCH_FAILED


@pytest.mark.parametrize("reason", SECURITY, ids=lambda reason: f"5.4 step 7-{reason}")
def test_a_security_refusal_is_told_once_per_change(reason: Reason) -> None:
    world = serving_world()
    world.wants("evil.example/laya:en")
    assert told(refused(reason)(world)) == ["CandidateRejected"]
    assert told(world.reconcile()) == []
    another = next(each for each in SECURITY if each is not reason)
    assert told(refused(another)(world)) == ["CandidateRejected"]


@pytest.mark.parametrize("reason", SECURITY, ids=lambda reason: f"5.4 step 7-{reason}")
def test_a_security_refusal_abandons_a_first_candidate(reason: Reason) -> None:
    world = World()
    world.wants("laya:en")
    world.reconcile()
    decision = refused(reason)(world)
    assert told(decision) == ["CandidateSuperseded"]
    assert decision.status.candidate_revision is None


@pytest.mark.parametrize(
    ("earlier", "later"),
    rows(
        ("5.4-step 7 before 9", {"preflight": SECURITY[0]}, {"refusals": CONFIGURATION[:1]}),
        ("5.4-step 9 before 14", {"refusals": CONFIGURATION[1:2]}, {"refusals": CONFIGURATION[3:4]}),
        ("5.4-step 14 before 15", {"refusals": CONFIGURATION[3:4]}, {"refusals": CONFIGURATION[5:6]}),
    ),
)
def test_the_first_obstacle_is_the_one_that_is_reported(earlier: dict[str, Any], later: dict[str, Any]) -> None:
    reasons = (*earlier.get("refusals", ()), *later.get("refusals", ()))
    preflight = earlier.get("preflight")
    world = World(more={"refusals": tuple(Refusal(reason=each, message="mend it") for each in reasons)})
    if preflight is not None:
        world.more["preflight"] = Refusal(reason=preflight, message="no")
    world.wants("laya:en")
    assert condition(world.reconcile(), ConditionType.READY).reason == (preflight or reasons[0])


@pytest.mark.parametrize(
    ("store", "reason"),
    rows(
        ("9.2-StoreLost", StoreState.ABSENT, Reason.STORE_LOST),
        ("9.2-StoreTerminating", StoreState.TERMINATING, Reason.STORE_TERMINATING),
    ),
)
def test_a_store_in_trouble_leaves_the_phase_alone(store: StoreState, reason: Reason) -> None:
    world = serving_world()
    stable = world.status.stable_revision
    assert stable is not None
    world.store_is(stable, store)
    decision = world.reconcile()
    assert decision.status.phase is Phase.READY
    assert condition(decision, ConditionType.READY).status == "True"
    assert condition(decision, ConditionType.DEGRADED).reason == reason
    assert told(decision) == [str(reason)]


def test_9_1_every_condition_says_which_generation_it_was_derived_from() -> None:
    world = serving_world()
    world.generation = 7
    decision = world.reconcile()
    refreshed = {ConditionType.READY, ConditionType.MODEL_READY, ConditionType.RESOLVED}
    found = {each.type: each.observed_generation for each in decision.status.conditions}
    assert {type_: found[type_] for type_ in refreshed} == dict.fromkeys(refreshed, 7)


@pytest.mark.parametrize(
    "trouble",
    rows(
        *((f"5.4 step 7-{each}", refused(each)) for each in SECURITY),
        ("5.5-ModelNotFound", tag_missing),
        ("5.5-ResolveFailed", registry_failing),
    ),
)
def test_nothing_is_left_of_a_first_candidate_that_is_abandoned(trouble: Trouble) -> None:
    world = World()
    world.wants("laya:en")
    world.reconcile()
    world.wants("laya:multilingual")
    decision = trouble(world)
    assert decision.status.candidate_revision is None
    assert world.revisions == {}


@pytest.mark.parametrize(
    "trouble",
    rows(
        *((f"5.4 step 7-{each}", refused(each)) for each in SECURITY),
        ("5.5-ModelNotFound", tag_missing),
        ("5.5-ResolveFailed", registry_failing),
    ),
)
def test_a_first_candidate_that_was_ready_leaves_no_word_of_it(trouble: Trouble) -> None:
    """Nobody may take a ready Pod, or an evaluation under way, for that of a model which has neither."""
    world = World(spec={"rollout": {"evaluation": EVALUATION}})
    world.ready("laya:en")
    assert condition(world.reconcile(), ConditionType.MODEL_READY).status == "True"
    world.wants("laya:multilingual")
    decision = trouble(world)
    types = {each.type for each in decision.status.conditions}
    assert not types & {ConditionType.MODEL_READY, ConditionType.EVALUATED, ConditionType.CACHED}
    assert decision.status.replicas is not None
    assert decision.status.replicas.model_ready == 0


def test_a_first_revision_that_is_rejected_with_ready_pods_counts_none() -> None:
    world = World(spec={"rollout": {"evaluation": EVALUATION}})
    world.ready("laya:en")
    world.reconcile()
    world.passes(601)
    decision = world.reconcile()
    assert decision.status.phase is Phase.FAILED
    assert decision.status.replicas is not None
    assert decision.status.replicas.model_ready == 0


def test_each_candidate_is_told_from_its_start_also_when_it_follows_another() -> None:
    world = serving_world()
    for model in ("laya:multilingual", "nli:latest"):
        world.wants(model)
        assert condition(world.reconcile(), ConditionType.MODEL_READY).status == "True"
        world.prefetched(wanted_of(world))
        assert "RevisionStarting" in told(world.reconcile())

"""A changed spec beside a serving stable: promotion, rejection, supersession, and the stable left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.conditions import ConditionType, Phase, Reason
from reconciler.rollout import (
    PrefetchFacts,
    PrefetchState,
    Refusal,
    ResolutionFailed,
    ServingFacts,
    StoreState,
    TagMissing,
)
from tests.reconciler.rollout.worlds import World, condition, planned, selected, serving, told


def world_with_stable() -> tuple[World, str]:
    world = World()
    stable = world.rolled_out("laya:en")
    return world, stable.hash


def test_a_candidate_is_added_beside_the_stable() -> None:
    world, stable = world_with_stable()
    wanted = world.wants("laya:multilingual")
    decision = world.reconcile()
    assert planned(decision) == {stable: True, wanted.hash: False}
    assert selected(decision) == stable
    assert decision.status.phase is Phase.CACHING
    assert condition(decision, ConditionType.READY).status == "True"


def test_traffic_moves_only_after_every_pod_of_the_candidate_is_model_ready() -> None:
    world, stable = world_with_stable()
    wanted = world.wants("laya:multilingual")
    world.reconcile()
    world.prefetched(wanted)
    assert selected(world.reconcile()) == stable
    world.pods_ready(wanted)
    decision = world.reconcile()
    assert selected(decision) == wanted.hash
    assert planned(decision) == {stable: True, wanted.hash: True}
    assert decision.status.previous_revision is not None
    assert decision.status.previous_revision.hash == stable


@pytest.mark.parametrize("failure", ["ModelNotFound", "DigestMismatch", "UpstreamTagMoved", "Transient"])
def test_a_failed_prefetch_rolls_back_and_keeps_the_stable(failure: str) -> None:
    world, stable = world_with_stable()
    wanted = world.wants("laya:broken")
    world.reconcile()
    world.prefetched(wanted, PrefetchFacts(state=PrefetchState.FAILED, failure=failure))
    decision = world.reconcile()
    assert decision.status.phase is Phase.ROLLED_BACK
    assert condition(decision, ConditionType.READY).status == "True"
    assert condition(decision, ConditionType.READY).reason == Reason.CANDIDATE_REJECTED
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.PREFETCH_FAILED
    assert planned(decision) == {stable: True}
    assert selected(decision) == stable
    assert told(decision) == ["RolledBack"]
    assert told(world.reconcile()) == []


def test_returning_to_the_stable_clears_the_rejection() -> None:
    world, stable = world_with_stable()
    wanted = world.wants("laya:broken")
    world.reconcile()
    world.prefetched(wanted, PrefetchFacts(state=PrefetchState.FAILED, failure="Transient"))
    world.reconcile()
    world.wants("laya:en")
    decision = world.reconcile()
    assert decision.status.phase is Phase.READY
    assert decision.status.failed_revision is None
    assert condition(decision, ConditionType.READY).reason == Reason.READY
    assert planned(decision) == {stable: True}


def test_a_third_revision_supersedes_the_candidate() -> None:
    world, stable = world_with_stable()
    world.wants("laya:multilingual")
    world.reconcile()
    third = world.wants("nli:latest")
    decision = world.reconcile()
    assert "CandidateSuperseded" in told(decision)
    assert planned(decision) == {stable: True, third.hash: False}


def test_a_superseding_candidate_has_deadlines_of_its_own() -> None:
    world, _ = world_with_stable()
    world.spec = {**world.spec, "rollout": {"timeouts": {"caching": "1m"}}}
    world.wants("laya:multilingual")
    world.reconcile()
    world.passes(59)
    world.wants("nli:latest")
    world.reconcile()
    world.passes(59)
    assert world.reconcile().status.phase is Phase.CACHING


def test_a_missing_tag_leaves_the_phase_to_the_stable() -> None:
    world, stable = world_with_stable()
    world.wants("laya:gone")
    world.resolution = TagMissing(message="no laya:gone")
    decision = world.reconcile()
    assert decision.status.phase is Phase.READY
    assert condition(decision, ConditionType.RESOLVED).reason == Reason.MODEL_NOT_FOUND
    assert planned(decision) == {stable: True}
    assert told(decision) == ["CandidateRejected"]
    assert told(world.reconcile()) == []


def test_an_unreachable_registry_leaves_the_stable_alone() -> None:
    world, stable = world_with_stable()
    world.wants("laya:multilingual")
    world.resolution = ResolutionFailed(message="timeout")
    decision = world.reconcile()
    assert decision.status.phase is Phase.READY
    assert planned(decision) == {stable: True}
    assert decision.resolve


def test_a_security_refusal_abandons_the_candidate_and_keeps_the_stable() -> None:
    world, stable = world_with_stable()
    world.wants("laya:multilingual")
    world.reconcile()
    world.more = {"preflight": Refusal(reason=Reason.REGISTRY_NOT_ALLOWED, message="evil.example is not allowed")}
    decision = world.reconcile()
    assert decision.status.candidate_revision is None
    assert set(told(decision)) == {"CandidateSuperseded", "CandidateRejected"}
    assert decision.status.phase is Phase.READY
    assert planned(decision) == {stable: True}


def test_a_configuration_problem_degrades_without_touching_what_serves() -> None:
    world, stable = world_with_stable()
    world.wants("laya:multilingual")
    world.more = {"refusals": (Refusal(reason=Reason.API_KEY_INVALID, message="no key"),)}
    decision = world.reconcile()
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.API_KEY_INVALID
    assert planned(decision) == {stable: True}
    assert condition(decision, ConditionType.READY).status == "True"


@pytest.mark.parametrize(
    ("ready", "phase", "is_ready", "reason"),
    [
        (3, Phase.READY, "True", None),
        (2, Phase.DEGRADED, "True", Reason.REPLICAS_NOT_MODEL_READY),
        (1, Phase.DEGRADED, "True", Reason.REPLICAS_NOT_MODEL_READY),
        (0, Phase.DEGRADED, "False", Reason.NO_MODEL_READY_PODS),
    ],
)
def test_the_stable_path_reports_how_many_pods_are_ready(
    ready: int, phase: Phase, is_ready: str, reason: Reason | None
) -> None:
    world = World(spec={"replicas": 3})
    stable = world.rolled_out("laya:en")
    world.pods_ready(stable, ready)
    decision = world.reconcile()
    assert decision.status.phase is phase
    assert condition(decision, ConditionType.READY).status == is_ready
    assert condition(decision, ConditionType.MODEL_READY).status == ("True" if ready == 3 else "False")
    if reason:
        assert condition(decision, ConditionType.DEGRADED).reason == reason
    assert decision.requeue_after == (60 if ready == 3 else 10)
    assert decision.status.replicas is not None
    assert decision.status.replicas.model_ready == ready


@pytest.mark.parametrize(("replicas", "budget"), [(1, False), (2, True)])
def test_only_a_stable_of_several_replicas_has_a_disruption_budget(replicas: int, budget: bool) -> None:
    world = World(spec={"replicas": replicas})
    world.rolled_out("laya:en")
    decision = world.reconcile()
    assert decision.stack is not None
    assert [plan.disruption_budget for plan in decision.stack.revisions] == [budget]


def test_the_old_revision_stays_for_the_stabilization_window() -> None:
    world, old = world_with_stable()
    new = world.rolled_out("laya:multilingual")
    world.passes(299)
    assert planned(world.reconcile()) == {new.hash: True, old: True}
    world.passes(2)
    decision = world.reconcile()
    assert "Stabilized" in told(decision)
    assert planned(decision) == {new.hash: True}


def test_without_a_window_the_old_revision_stays_for_the_grace() -> None:
    world = World(spec={"rollout": {"stabilization": "0s"}})
    old = world.rolled_out("laya:en")
    new = world.rolled_out("laya:multilingual")
    world.passes(29)
    assert old.hash in planned(world.reconcile())
    world.passes(2)
    assert planned(world.reconcile()) == {new.hash: True}


@pytest.mark.parametrize(
    "pods",
    [
        ServingFacts(exists=True, model_ready=1, mismatched_gates=(Reason.DIGEST_MISMATCH,)),
        ServingFacts(exists=True, model_ready=1, mismatched_gates=(Reason.DEVICE_MISMATCH,)),
        ServingFacts(exists=True, model_ready=0, crash_looping=True),
        ServingFacts(exists=True, model_ready=1, progress_deadline_exceeded=True),
    ],
)
def test_proof_of_harm_after_promotion_rolls_back_at_once(pods: ServingFacts) -> None:
    world, old = world_with_stable()
    new = world.rolled_out("laya:multilingual")
    world.pods(new, pods)
    decision = world.reconcile()
    assert selected(decision) == old
    assert decision.status.phase is Phase.ROLLED_BACK
    assert told(decision) == ["RolledBackAfterPromotion"]
    assert decision.status.failed_revision is not None
    assert decision.status.failed_revision.hash == new.hash
    # Traffic is still on the failed revision when this is decided: it goes with the next operation, not with this one.
    assert new.hash in planned(decision)
    assert planned(world.reconcile()) == {old: True}


def test_a_shortage_after_promotion_is_debounced() -> None:
    world, old = world_with_stable()
    new = world.rolled_out("laya:multilingual")
    world.pods_ready(new, 0)
    world.reconcile()
    world.passes(29)
    decision = world.reconcile()
    assert decision.status.stable_revision == new
    assert selected(decision) == old, "which has Pods"
    world.passes(1)
    decision = world.reconcile()
    assert decision.status.failed_revision is not None
    assert selected(decision) == old


def test_a_rolling_deployment_is_not_unhealthy_and_extends_the_window() -> None:
    world, old = world_with_stable()
    new = world.rolled_out("laya:multilingual")
    world.pods(new, ServingFacts(exists=True, model_ready=0, rolling=True))
    world.reconcile()
    world.passes(400)
    decision = world.reconcile()
    assert decision.status.stable_revision == new
    assert selected(decision) == old, "which has Pods"
    assert condition(decision, ConditionType.STABILIZING).reason == Reason.STABLE_ROLLING


def test_a_pass_lost_between_status_and_switch_keeps_what_the_service_selects() -> None:
    world, old = world_with_stable()
    new = world.rolled_out("laya:multilingual")
    world.service = old
    world.revisions[old] = serving(1)
    world.passes(3600)
    decision = world.reconcile()
    assert selected(decision) == new.hash
    assert old in planned(decision)


def test_a_new_candidate_waits_until_traffic_has_moved() -> None:
    world, old = world_with_stable()
    new = world.rolled_out("laya:multilingual")
    world.service = old
    world.wants("nli:latest")
    decision = world.reconcile()
    assert decision.status.candidate_revision is None
    assert selected(decision) == new.hash


def test_a_terminating_store_is_waited_for() -> None:
    world, stable = world_with_stable()
    wanted = world.wants("laya:multilingual")
    world.reconcile()
    world.revisions[wanted.hash] = replace(world.revisions[wanted.hash], store=StoreState.TERMINATING)
    decision = world.reconcile()
    assert decision.status.phase is Phase.CACHING
    assert planned(decision) == {stable: True}
    assert decision.requeue_after == 5


def test_manual_promotion_parks_until_the_revision_is_named() -> None:
    world, stable = world_with_stable()
    world.spec = {**world.spec, "rollout": {"promotion": "Manual"}}
    wanted = world.ready("laya:multilingual")
    decision = world.reconcile()
    assert decision.status.phase is Phase.AWAITING_PROMOTION
    assert selected(decision) == stable
    world.annotations = {"decisionmodel.io/promote": "another"}
    assert selected(world.reconcile()) == stable
    world.annotations = {"decisionmodel.io/promote": wanted.hash}
    decision = world.reconcile()
    assert selected(decision) == wanted.hash
    assert "PromotionApproved" in told(decision)

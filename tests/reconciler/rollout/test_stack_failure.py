"""A stack that cannot be converged while a revision serves: said as a condition, for as long as it lasts."""

from __future__ import annotations

from api.conditions import ConditionType, Phase, Reason, find_condition
from tests.reconciler.rollout.worlds import World, condition


def test_a_failure_is_a_reason_beside_what_serves_and_goes_with_it() -> None:
    world = World()
    world.rolled_out("laya:en")
    world.more = {"stack_failure": "Unreachable: the backend does not answer"}
    decision = world.reconcile()
    assert decision.status.phase is Phase.READY
    degraded = condition(decision, ConditionType.DEGRADED)
    assert degraded.reason == Reason.STACK_FAILED
    assert "the backend does not answer" in degraded.message
    before = world.status
    assert world.reconcile().status == before
    world.more = {}
    assert find_condition(world.reconcile().status.conditions, ConditionType.DEGRADED) is None


def test_too_few_pods_are_the_better_reason_and_the_failure_their_cause() -> None:
    world = World()
    stable = world.rolled_out("laya:en")
    world.pods_ready(stable, 0)
    world.more = {"stack_failure": "Unreachable: the backend does not answer"}
    decision = world.reconcile()
    degraded = condition(decision, ConditionType.DEGRADED)
    assert degraded.reason == Reason.NO_MODEL_READY_PODS
    assert degraded.message.startswith("0/1 Pods model-ready; the stack could not be converged: Unreachable")
    assert world.reconcile().status == decision.status


def test_it_is_told_of_a_candidate_that_starts_and_of_its_end() -> None:
    world = World()
    wanted = world.wants("laya:en")
    world.reconcile()
    world.prefetched(wanted)
    world.more = {"stack_failure": "Refused: exceeded quota"}
    starting = condition(world.reconcile(), ConditionType.MODEL_READY)
    assert starting.message == "0/1 Pods model-ready; the stack could not be converged: Refused: exceeded quota"
    world.passes(601)
    failed = world.reconcile().status.failed_revision
    assert failed is not None
    assert "exceeded quota" in failed.message

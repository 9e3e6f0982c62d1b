"""`Reconciling` and `Stalled`: a generic waiter can tell under way, done and given up, at every moment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api.conditions import ConditionType, Phase, Reason
from reconciler.rollout import Decision, PrefetchFacts, PrefetchState, Refusal, ResolutionFailed, StoreState, TagMissing
from tests.reconciler.rollout.worlds import World, condition

UNDER_WAY, DONE, GIVEN_UP = ("True", "False"), ("False", "False"), ("False", "True")


def course(decision: Decision) -> tuple[str, str]:
    """What both say; they always speak about the spec of right now, and have one reason."""
    reconciling = condition(decision, ConditionType.RECONCILING)
    stalled = condition(decision, ConditionType.STALLED)
    assert (reconciling.reason, reconciling.message) == (stalled.reason, stalled.message)
    assert {reconciling.observed_generation, stalled.observed_generation} == {decision.status.observed_generation}
    return reconciling.status, stalled.status


def kstatus(decision: Decision) -> str:
    """As kstatus reads it: `Reconciling`, `Stalled`, then `Ready`."""
    if course(decision)[0] == "True":
        return "InProgress"
    if course(decision)[1] == "True":
        return "Failed"
    return "Current" if condition(decision, ConditionType.READY).status == "True" else "InProgress"


def reason(decision: Decision) -> Reason:
    return Reason(condition(decision, ConditionType.RECONCILING).reason)


def test_a_first_rollout_is_under_way_until_it_serves() -> None:
    world = World()
    wanted = world.wants("laya:en")
    seen = [kstatus(world.reconcile())]
    world.prefetched(wanted)
    seen.append(kstatus(world.reconcile()))
    world.pods_ready(wanted)
    promoted = world.reconcile()

    assert [*seen, kstatus(promoted)] == ["InProgress"] * 3
    assert world.status.stable_revision == wanted  # the Service follows the write
    assert kstatus(world.reconcile()) == "Current"
    assert reason(world.reconcile()) is Reason.READY


def test_the_revision_that_serves_satisfies_nobody_who_waits_for_another() -> None:
    world = World()
    world.rolled_out("laya:en")
    world.spec, world.generation, world.resolution = {"model": "laya:en-better"}, 9, None
    asked = world.reconcile()
    assert condition(asked, ConditionType.READY).status == "True"
    assert (kstatus(asked), reason(asked)) == ("InProgress", Reason.RESOLVING)

    wanted = world.wants("laya:en-better")
    assert (kstatus(world.reconcile()), reason(world.reconcile())) == ("InProgress", Reason.CACHING)
    world.prefetched(wanted, PrefetchFacts(state=PrefetchState.FAILED, failure="DigestMismatch"))
    rejected = world.reconcile()
    assert condition(rejected, ConditionType.READY).status == "True"
    assert (kstatus(rejected), reason(rejected)) == ("Failed", Reason.PREFETCH_FAILED)
    assert kstatus(world.reconcile()) == "Failed"

    world.wants("laya:en")
    world.reconcile()
    assert kstatus(world.reconcile()) == "Current"


REFUSAL = Refusal(reason=Reason.SECRET_NOT_ALLOWED, message="label it")


@pytest.mark.parametrize("serving", [True, False])
@pytest.mark.parametrize(
    ("facts", "expected", "why"),
    [
        ({"preflight": REFUSAL}, GIVEN_UP, Reason.SECRET_NOT_ALLOWED),
        ({"refusals": (REFUSAL,)}, GIVEN_UP, Reason.SECRET_NOT_ALLOWED),
        ({"conflict": "a Service of somebody else"}, GIVEN_UP, Reason.RESOURCE_CONFLICT),
        ({"resolution": TagMissing(message="no such tag")}, GIVEN_UP, Reason.MODEL_NOT_FOUND),
        ({"resolution": ResolutionFailed(message="no answer")}, UNDER_WAY, Reason.RESOLVE_FAILED),
        ({"resolution": None}, UNDER_WAY, Reason.RESOLVING),
    ],
)
def test_what_keeps_the_spec_from_being_acted_on(
    serving: bool, facts: dict[str, Any], expected: tuple[str, str], why: Reason
) -> None:
    world = World()
    if serving:
        world.rolled_out("laya:en")
    world.wants("laya:en-better")
    more = dict(facts)
    if "resolution" in more:
        world.resolution = more.pop("resolution")
    world.more = more
    decision = world.reconcile()

    assert (course(decision), reason(decision)) == (expected, why)


def test_a_candidate_that_waits_for_a_person_is_under_way_and_says_how_to_approve_it() -> None:
    world = World(spec={"rollout": {"promotion": "Manual"}})
    world.rolled_out("laya:en")
    world.ready("laya:en-better")
    decision = world.reconcile()

    assert decision.status.phase is Phase.AWAITING_PROMOTION
    assert (course(decision), reason(decision)) == (UNDER_WAY, Reason.PROMOTION_PENDING)
    assert "promote=" in condition(decision, ConditionType.RECONCILING).message


@pytest.mark.parametrize(
    ("failure", "expected", "why"), [(None, DONE, Reason.READY), ("no answer", UNDER_WAY, Reason.STACK_FAILED)]
)
def test_what_the_engine_tries_again_is_under_way(failure: str | None, expected: tuple[str, str], why: Reason) -> None:
    world = World()
    world.rolled_out("laya:en")
    world.settled()
    world.more = {"stack_failure": failure}
    decision = world.reconcile()

    assert (course(decision), reason(decision)) == (expected, why)


def test_missing_pods_heal_by_themselves() -> None:
    world = World()
    stable = world.rolled_out("laya:en")
    world.settled()
    world.pods_ready(stable, 0)
    decision = world.reconcile()

    assert decision.status.phase is Phase.DEGRADED
    assert (course(decision), reason(decision)) == (UNDER_WAY, Reason.NO_MODEL_READY_PODS)


def test_replaced_pods_of_the_same_revision_are_under_way() -> None:
    world = World()
    stable = world.rolled_out("laya:en")
    world.settled()
    world.pods(stable, replace(world.revisions[stable.hash].serving, rolling=True))
    decision = world.reconcile()

    assert (course(decision), reason(decision)) == (UNDER_WAY, Reason.STABLE_ROLLING)


def test_a_store_that_is_refilled_is_under_way() -> None:
    world = World()
    stable = world.rolled_out("laya:en")
    world.settled()
    world.store_is(stable, StoreState.ABSENT)
    decision = world.reconcile()

    assert (course(decision), reason(decision)) == (UNDER_WAY, Reason.STORE_LOST)


def test_a_spec_that_changes_no_revision_is_done_once_the_engine_is() -> None:
    world = World()
    world.rolled_out("laya:en")
    world.settled()
    world.generation += 1
    world.spec = {**world.spec, "auth": {"apiKeySecretRef": {"name": "key", "key": "key"}}}
    first = world.reconcile()
    assert (course(first), reason(first)) == (UNDER_WAY, Reason.APPLYING)
    assert first.requeue_after == 2.0
    world.more = {"stack_busy": True}
    assert course(world.reconcile()) == UNDER_WAY
    world.more = {}
    assert course(world.reconcile()) == DONE


def test_a_repair_that_nobody_waits_for_does_not_show() -> None:
    world = World()
    world.rolled_out("laya:en")
    world.settled()
    world.reconcile()
    before = world.status
    world.more = {"stack_busy": True}

    assert world.reconcile().status == before


def test_the_scale_is_of_the_revision_that_serves_and_of_the_first_one_before_it() -> None:
    world = World()
    wanted = world.wants("laya:en")
    assert world.reconcile().status.selector == f"decisionmodel.io/name=router,decisionmodel.io/revision={wanted.hash}"
    world.rolled_out("laya:en")
    stable = world.status.stable_revision
    assert stable is not None
    world.pods(stable, replace(world.revisions[stable.hash].serving, pods=3, current=2))
    world.wants("laya:en-better")
    status = world.reconcile().status

    assert status.selector.endswith(stable.hash)
    assert status.replicas is not None
    assert (status.replicas.current, status.replicas.model_ready) == (2, 1)

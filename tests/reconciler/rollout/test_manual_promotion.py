"""A candidate held for a person: how it is approved, what is not an approval, and when the approval is consumed."""

from __future__ import annotations

import pytest

from api.conditions import ConditionType, Phase, Reason, find_condition
from api.keys import PROMOTE_ANNOTATION
from api.status import RevisionStatus
from tests.reconciler.rollout.worlds import World, condition, selected, told


def parked_world() -> tuple[World, RevisionStatus, RevisionStatus]:
    world = World(spec={"rollout": {"promotion": "Manual"}})
    stable = world.rolled_out("laya:en")
    wanted = world.ready("laya:multilingual")
    world.reconcile()
    assert world.status.phase is Phase.AWAITING_PROMOTION
    return world, stable, wanted


def test_an_approval_promotes_and_is_consumed_only_after_the_promotion_is_persisted() -> None:
    world, _, wanted = parked_world()
    world.annotations = {PROMOTE_ANNOTATION: wanted.hash}
    decision = world.reconcile()
    assert selected(decision) == wanted.hash
    assert told(decision) == ["PromotionApproved", "DeprecatedApproval", "Promoted"]
    assert not decision.approval_consumed
    assert world.reconcile().approval_consumed
    world.annotations = {}
    assert not world.reconcile().approval_consumed


def test_an_approval_that_is_put_back_is_left_alone_and_promotes_nothing_again() -> None:
    """As GitOps does with what is in its manifests."""
    world, _, wanted = parked_world()
    world.annotations = {PROMOTE_ANNOTATION: wanted.hash}
    world.reconcile()
    assert world.reconcile().approval_consumed
    world.annotations = {}
    world.reconcile()
    world.annotations = {PROMOTE_ANNOTATION: wanted.hash}
    before = world.status
    for _ in range(5):
        assert not world.reconcile().approval_consumed
    assert world.status == before


def test_the_same_revision_waits_for_a_new_word_though_the_old_one_is_put_back() -> None:
    world, _, wanted = parked_world()
    world.annotations = {PROMOTE_ANNOTATION: wanted.hash}
    world.reconcile()
    world.reconcile()
    world.spec = {"rollout": {"promotion": "Automatic"}}
    first = world.rolled_out("laya:en")
    world.spec = {"rollout": {"promotion": "Manual"}}
    again = world.ready("laya:multilingual")
    assert again.hash == wanted.hash

    decision = world.reconcile()
    assert selected(decision) == first.hash
    assert "take it out, then set it again" in condition(decision, ConditionType.PROMOTED).message
    assert told(decision).count("StaleApproval") == 0
    world.annotations = {}
    world.reconcile()
    world.annotations = {PROMOTE_ANNOTATION: wanted.hash}
    assert selected(world.reconcile()) == wanted.hash


@pytest.mark.parametrize("value", ["another", "0123456789abcdef", "x" * 100_000, "\x00\x1b[31m"])
def test_another_value_is_answered_once_and_promotes_nothing(value: str) -> None:
    world, stable, _ = parked_world()
    world.annotations = {PROMOTE_ANNOTATION: value}
    decision = world.reconcile()
    assert selected(decision) == stable.hash
    assert told(decision) == ["StaleApproval"]
    assert condition(decision, ConditionType.PROMOTED).reason == Reason.PROMOTION_PENDING
    assert len(condition(decision, ConditionType.PROMOTED).message) < 400
    assert condition(decision, ConditionType.PROMOTED).message.isprintable()
    assert told(world.reconcile()) == []
    world.annotations = {PROMOTE_ANNOTATION: "third"}
    assert told(world.reconcile()) == ["StaleApproval"]


def test_an_approval_of_the_old_stable_approves_no_candidate() -> None:
    world, stable, _ = parked_world()
    world.annotations = {PROMOTE_ANNOTATION: stable.hash}
    decision = world.reconcile()
    assert selected(decision) == stable.hash
    assert decision.approval_consumed


def test_a_candidate_that_loses_its_pods_starts_again_and_cannot_be_approved_meanwhile() -> None:
    world, stable, wanted = parked_world()
    world.pods_ready(wanted, 0)
    world.annotations = {PROMOTE_ANNOTATION: wanted.hash}
    decision = world.reconcile()
    assert decision.status.phase is Phase.STARTING
    assert selected(decision) == stable.hash
    world.pods_ready(wanted)
    assert selected(world.reconcile()) == wanted.hash


def test_waiting_has_no_deadline_and_is_told_once() -> None:
    world, _, _ = parked_world()
    before = world.status
    world.passes(86_400)
    decision = world.reconcile()
    assert decision.status == before
    assert decision.requeue_after == 60.0
    assert world.said.count("AwaitingPromotion") == 1


def test_a_candidate_that_is_abandoned_waits_for_nothing() -> None:
    world, _, _ = parked_world()
    world.wants("laya:en")
    decision = world.reconcile()
    assert find_condition(decision.status.conditions, ConditionType.PROMOTED) is None
    assert decision.status.phase is Phase.READY


def test_a_new_candidate_asks_anew() -> None:
    world, _, _ = parked_world()
    world.ready("nli:latest")
    assert "AwaitingPromotion" in told(world.reconcile())

"""The golden-data-set gate: running, held, passed, failed, undecided, and what restarts and edits change (spec 7.5)."""

from __future__ import annotations

from typing import Any

import pytest

from api.conditions import ConditionType, Phase, Reason
from api.keys import PROMOTE_ANNOTATION, RETRY_ANNOTATION
from api.status import EvaluationResult, EvaluationStatus, RevisionStatus
from reconciler.rollout import EvaluationFacts, Refusal
from tests.reconciler.rollout.worlds import World, condition, selected, stopped, told

GATE = {"datasetRef": {"configMapRef": {"name": "golden", "key": "cases"}}, "minAccuracy": "0.8"}


def evaluating(promotion: str | None = None, evaluation: dict[str, Any] | None = None, **rollout: Any) -> World:
    policy = {"promotion": promotion} if promotion else {}
    world = World(spec={"rollout": {"evaluation": evaluation or GATE, **policy, **rollout}})
    knows(world, outcome=None)
    return world


def knows(world: World, dataset: str = "d" * 16, policy: str = "a" * 16, **facts: Any) -> None:
    world.more = {"evaluation": EvaluationFacts(policy_hash=policy, dataset_digest=dataset, **facts)}


def outcome(
    wanted: RevisionStatus, result: EvaluationResult, reason: str = "", dataset: str = "d" * 16
) -> EvaluationStatus:
    return EvaluationStatus(
        revision=wanted.hash,
        accuracy="0.9000",
        baseline_accuracy="0.8500",
        result=result,
        reason=reason,
        policy_hash="a" * 16,
        dataset_digest=dataset,
        approval_id=f"{dataset[:4]}approval",
    )


def passed(world: World, model: str) -> RevisionStatus:
    wanted = world.ready(model)
    world.reconcile()
    knows(world, outcome=outcome(wanted, EvaluationResult.PASSED))
    world.reconcile()
    world.reconcile()
    return wanted


def test_without_an_evaluation_there_is_nothing_to_pass() -> None:
    world = World()
    world.rolled_out("laya:en")
    assert condition(world.reconcile(), ConditionType.EVALUATED).reason == Reason.EVALUATION_SKIPPED


def test_a_ready_candidate_is_scored_before_anything_else() -> None:
    world = evaluating()
    wanted = world.ready("laya:en")
    decision = world.reconcile()
    assert decision.evaluate
    assert decision.status.phase is Phase.EVALUATING
    assert condition(decision, ConditionType.EVALUATED).reason == Reason.EVALUATION_RUNNING
    assert condition(decision, ConditionType.READY).status == "False"
    assert told(decision) == ["EvaluationStarted"]
    assert decision.probe == (wanted.hash,)
    again = world.reconcile()
    assert again.evaluate
    assert told(again) == []


def test_a_candidate_that_passed_is_promoted_with_its_figures() -> None:
    world = evaluating()
    wanted = world.ready("laya:en")
    world.reconcile()
    knows(world, outcome=outcome(wanted, EvaluationResult.PASSED))
    decision = world.reconcile()
    assert told(decision) == ["EvaluationPassed", "Promoted"]
    assert decision.status.stable_revision == wanted
    assert decision.events[-1].note.endswith("(accuracy 0.9000, baseline 0.8500)")
    assert condition(decision, ConditionType.EVALUATED).reason == Reason.EVALUATION_PASSED
    assert decision.status.evaluation is not None


def test_a_candidate_that_failed_is_rejected_and_the_stable_serves_on() -> None:
    world = evaluating()
    stable = passed(world, "laya:en")
    knows(world, outcome=None)
    wanted = world.ready("laya:multilingual")
    world.reconcile()
    knows(world, outcome=outcome(wanted, EvaluationResult.FAILED, "accuracy 0.7 < 0.8"))
    decision = world.reconcile()
    assert told(decision) == ["EvaluationFailed", "RolledBack"]
    assert decision.status.phase is Phase.ROLLED_BACK
    assert selected(decision) == stable.hash
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.EVALUATION_FAILED
    assert condition(decision, ConditionType.DEGRADED).message == "accuracy 0.7 < 0.8"
    assert decision.status.evaluation is not None
    assert decision.status.evaluation.result is EvaluationResult.FAILED


def test_a_retry_scores_a_candidate_that_failed_once_more() -> None:
    world = evaluating()
    wanted = world.ready("laya:en")
    world.reconcile()
    knows(world, outcome=outcome(wanted, EvaluationResult.FAILED, "accuracy 0.7 < 0.8"))
    world.reconcile()
    knows(world)
    world.annotations = {RETRY_ANNOTATION: "again"}
    world.ready("laya:en")
    decision = world.reconcile()
    assert decision.evaluate
    assert decision.status.phase is Phase.EVALUATING


@pytest.mark.parametrize(
    ("baseline", "gates", "is_scored"),
    [("", {"maxAccuracyDrop": "0.05"}, True), ("0.8500", {"maxAccuracyDrop": "0.05"}, False), ("", {}, False)],
    ids=["nothing to compare with then", "compared then", "nothing to compare"],
)
def test_a_recorded_pass_counts_for_what_it_was_compared_with(
    baseline: str, gates: dict[str, str], is_scored: bool
) -> None:
    world = evaluating(evaluation={**GATE, **gates})
    passed(world, "laya:en")
    world.settled()
    knows(world)
    wanted = world.ready("laya:multilingual")
    recorded = outcome(wanted, EvaluationResult.PASSED)
    world.status = world.status.model_copy(
        update={"evaluation": recorded.model_copy(update={"baseline_accuracy": baseline})}
    )
    decision = world.reconcile()
    assert decision.evaluate is is_scored
    assert ("Promoted" in told(decision)) is not is_scored


def test_why_a_run_could_not_be_ended_is_told_while_it_is_repeated_and_when_time_is_up() -> None:
    world = evaluating()
    world.ready("laya:en")
    world.reconcile()
    knows(world, trouble="the Pod answered 401")
    decision = world.reconcile()
    assert condition(decision, ConditionType.EVALUATED).message.endswith("the last run: the Pod answered 401")
    assert told(decision) == []
    world.passes(601)
    decision = world.reconcile()
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.EVALUATION_TIMEOUT
    assert condition(decision, ConditionType.DEGRADED).message.endswith("the last run: the Pod answered 401")


@pytest.mark.parametrize(
    "reason",
    [Reason.DATASET_NOT_FOUND, Reason.DATASET_KEY_NOT_FOUND, Reason.SECRET_NOT_ALLOWED, Reason.DATASET_INVALID],
)
def test_a_data_set_that_cannot_be_used_holds_the_candidate_and_rejects_it_at_the_deadline(reason: Reason) -> None:
    world = evaluating()
    world.ready("laya:en")
    knows(world, obstacle=Refusal(reason=reason, message="look"))
    decision = world.reconcile()
    assert decision.status.phase is Phase.EVALUATING
    assert condition(decision, ConditionType.EVALUATED).reason == reason
    assert told(decision) == ["EvaluationOnHold"]
    assert decision.requeue_after == 60
    assert told(world.reconcile()) == []
    world.passes(601)
    late = world.reconcile()
    assert late.status.failed_revision is not None
    assert late.status.failed_revision.reason == reason
    assert late.status.phase is Phase.FAILED


def test_a_held_candidate_goes_on_when_the_data_set_is_there() -> None:
    world = evaluating()
    wanted = world.ready("laya:en")
    knows(world, obstacle=Refusal(reason=Reason.DATASET_NOT_FOUND, message="no"))
    world.reconcile()
    knows(world)
    assert told(world.reconcile()) == ["EvaluationStarted"]
    knows(world, outcome=outcome(wanted, EvaluationResult.PASSED))
    assert world.reconcile().status.stable_revision == wanted


def test_a_malformed_data_set_rejects_at_once() -> None:
    world = evaluating()
    world.ready("laya:en")
    knows(world, obstacle=Refusal(reason=Reason.DATASET_INVALID, message="line 3: no JSON"), hopeless=True)
    decision = world.reconcile()
    assert decision.status.phase is Phase.FAILED
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.DATASET_INVALID


def test_a_missing_baseline_is_waited_for_and_ends_as_a_timeout() -> None:
    world = evaluating()
    world.ready("laya:en")
    knows(world, obstacle=Refusal(reason=Reason.BASELINE_UNAVAILABLE, message="the stable answers 401"))
    assert condition(world.reconcile(), ConditionType.EVALUATED).reason == Reason.BASELINE_UNAVAILABLE
    world.passes(601)
    late = world.reconcile()
    assert late.status.failed_revision is not None
    assert late.status.failed_revision.reason == Reason.EVALUATION_TIMEOUT


def test_scoring_that_does_not_end_is_a_timeout() -> None:
    world = evaluating(timeouts={"evaluating": "1m"})
    world.ready("laya:en")
    world.reconcile()
    world.passes(60)
    assert world.reconcile().status.phase is Phase.EVALUATING, "strictly greater"
    world.passes(1)
    assert world.reconcile().status.phase is Phase.FAILED


@pytest.mark.parametrize("policy", ["Hold", "Reject"])
def test_an_undecided_candidate_is_never_promoted(policy: str) -> None:
    statistics = {"method": "paired", "nonInferiorityMargin": "0.02", "onUndecided": policy}
    world = evaluating(evaluation={**GATE, "statistics": statistics})
    wanted = world.ready("laya:en")
    world.reconcile()
    verdict = outcome(wanted, EvaluationResult.UNDECIDED, "340 more items of refund would decide")
    knows(world, outcome=verdict)
    decision = world.reconcile()
    if policy == "Reject":
        assert decision.status.phase is Phase.FAILED
        assert condition(decision, ConditionType.DEGRADED).reason == Reason.EVALUATION_UNDECIDED
        return
    assert decision.status.phase is Phase.EVALUATING
    assert condition(decision, ConditionType.EVALUATED).message == verdict.reason
    world.passes(601)
    assert world.reconcile().status.phase is Phase.FAILED


def parked() -> tuple[World, RevisionStatus, RevisionStatus]:
    world = evaluating("Manual")
    stable = passed(world, "laya:en")
    knows(world)
    wanted = passed(world, "laya:multilingual")
    assert world.status.phase is Phase.AWAITING_PROMOTION
    return world, stable, wanted


def test_only_the_approval_id_approves_what_was_measured() -> None:
    world, stable, wanted = parked()
    world.annotations = {PROMOTE_ANNOTATION: wanted.hash}
    decision = world.reconcile()
    assert told(decision) == ["DeprecatedApproval"]
    assert selected(decision) == stable.hash
    world.annotations = {PROMOTE_ANNOTATION: "0123456789ab"}
    assert told(world.reconcile()) == ["StaleApproval"]
    world.annotations = {PROMOTE_ANNOTATION: "ddddapproval"}
    approved = world.reconcile()
    assert told(approved) == ["PromotionApproved", "Promoted"]
    assert selected(approved) == wanted.hash
    assert not approved.approval_consumed
    assert world.reconcile().approval_consumed


def test_a_parked_candidate_is_not_scored_again_by_a_process_that_takes_over() -> None:
    world, _, _ = parked()
    before = world.status
    knows(world, outcome=None)
    decision = world.reconcile()
    assert decision.status == before
    assert not decision.evaluate


@pytest.mark.parametrize("changed", [{"dataset": "e" * 16}, {"policy": "b" * 16}])
def test_an_approval_of_yesterdays_data_set_is_not_honoured(changed: dict[str, str]) -> None:
    world, stable, wanted = parked()
    knows(world, **changed)
    world.annotations = {PROMOTE_ANNOTATION: "ddddapproval"}
    decision = world.reconcile()
    assert selected(decision) == stable.hash
    assert told(decision) == ["DatasetChanged"]
    assert condition(decision, ConditionType.EVALUATED).reason == Reason.DATASET_CHANGED
    assert decision.evaluate
    assert told(world.reconcile()) == ["EvaluationStarted"]
    fresh = outcome(wanted, EvaluationResult.PASSED, dataset="e" * 16)
    knows(world, "e" * 16, outcome=fresh)
    assert "StaleApproval" in told(world.reconcile())
    assert world.status.phase is Phase.AWAITING_PROMOTION


def test_a_candidate_that_loses_its_pods_while_it_is_scored_starts_again() -> None:
    world = evaluating()
    wanted = world.ready("laya:en")
    world.reconcile()
    world.pods_ready(wanted, 0)
    decision = world.reconcile()
    assert decision.status.phase is Phase.STARTING
    assert not decision.evaluate
    world.pods_ready(wanted)
    assert told(world.reconcile()) == []


def test_relative_gates_are_skipped_aloud_where_recreate_has_stopped_the_stable() -> None:
    world = evaluating(evaluation={**GATE, "maxAccuracyDrop": "0.02"}, strategy="Recreate")
    stable = passed(world, "laya:en")
    assert "EvaluationOnHold" not in world.said
    knows(world)
    wanted = world.wants("laya:multilingual")
    world.reconcile()
    world.prefetched(wanted)
    world.reconcile()
    world.pods_are_gone(stable)
    world.reconcile()
    world.pods_ready(wanted)
    decision = world.reconcile()
    assert told(decision) == ["EvaluationStarted", "EvaluationOnHold"]
    assert stopped(decision) == {stable.hash}

"""`status.evaluation`: every field, as text."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from api.status import EvaluationResult, EvaluationStatus
from reconciler.evaluation.gates import Verdict, judge
from reconciler.evaluation.policy import Policy, approval_id
from reconciler.evaluation.report import report_evaluation
from reconciler.evaluation.scores import QuestionScores, Scores

REVISION, DATASET = "0123456789abcdef", "fedcba9876543210"
POLICY = Policy(
    min_accuracy="0.850",
    max_accuracy_drop="0.05",
    max_ece="0.1",
    max_ece_increase="0.02",
    min_macro_f1="0.8",
    max_macro_f1_drop="0.03",
    dataset="cm/golden/cases.jsonl",
    max_cases=500,
    score_tolerance="0.5",
)
SCORES = Scores(
    cases=40,
    failed_cases=1,
    calibrated=118,
    classifiable=80,
    accuracy=Fraction(8, 9),
    ece=0.04999,
    brier=1 / 16,
    macro_f1=2 / 3,
    questions=(QuestionScores(question="q", items=40, accuracy=Fraction(1, 3), macro_f1=None),),
)
BASELINE = replace(SCORES, accuracy=Fraction(1), ece=0.0, macro_f1=None)


def report(**changes: Any) -> EvaluationStatus:
    parts: dict[str, Any] = {
        "revision": REVISION,
        "dataset_digest": DATASET,
        "policy": POLICY,
        "candidate": SCORES,
        "baseline": BASELINE,
        "verdict": Verdict(EvaluationResult.PASSED),
        "completed_at": datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC),
    }
    return report_evaluation(**{**parts, **changes})


def test_every_field_is_told() -> None:
    assert report().dump() == {
        "accuracy": "0.8889",
        "approvalId": approval_id(REVISION, POLICY.hash, DATASET),
        "baselineAccuracy": "1.0000",
        "baselineEce": "0.0000",
        "brier": "0.0625",
        "calibratedCases": 118,
        "cases": 40,
        "classifiableCases": 80,
        "completedAt": "2026-11-29T12:00:00Z",
        "datasetDigest": DATASET,
        "ece": "0.0500",
        "failedCases": 1,
        "macroF1": "0.6667",
        "maxAccuracyDrop": "0.05",
        "maxEce": "0.1",
        "maxEceIncrease": "0.02",
        "maxMacroF1Drop": "0.03",
        "minAccuracy": "0.850",
        "minMacroF1": "0.8",
        "policyHash": POLICY.hash,
        "questions": [{"accuracy": "0.3333", "cases": 40, "id": "q"}],
        "result": "Passed",
        "revision": REVISION,
        "scorerVersion": 1,
    }


def test_a_first_evaluation_has_nothing_to_compare_with() -> None:
    told = report(baseline=None).dump()
    assert not {name for name in told if name.startswith("baseline")}


def test_gates_that_are_not_set_are_not_told() -> None:
    told = report(policy=Policy(min_accuracy="0", dataset="cm/a/b", max_cases=1, score_tolerance="0.5")).dump()
    assert {name for name in told if name.startswith(("min", "max"))} == {"minAccuracy"}


def test_the_reason_is_the_violated_gate_or_else_what_was_left_out() -> None:
    note = "relative gates are left out: the serving revision is stopped"
    assert report(left_out=note).reason == note
    verdict = judge(POLICY, replace(SCORES, accuracy=Fraction(0)), None)
    failed = report(left_out=note, verdict=verdict)
    assert (failed.result, failed.reason) == (EvaluationResult.FAILED, "accuracy 0.0000 is below minAccuracy 0.850")


def questions(*ids: str) -> Scores:
    of_one = SCORES.questions[0]
    return replace(SCORES, questions=tuple(replace(of_one, question=each, macro_f1=0.5) for each in ids))


def test_at_most_twenty_questions_are_told() -> None:
    ids = [f"q{number:02}" for number in range(21)]
    told = report(candidate=questions(*ids))
    assert [each.id for each in told.questions] == ids[:20]
    assert told.truncated
    assert not report(candidate=questions(*ids[:20])).truncated
    assert told.questions[0].macro_f1 == "0.5000"


def test_a_long_id_is_cut_and_told_apart_by_its_hash() -> None:
    exact, long, other = "x" * 63, "x" * 64, "x" * 63 + "\u00e9"
    ids = [each.id for each in report(candidate=questions(exact, long, other)).questions]
    assert ids[0] == exact
    assert ids[1] == "x" * 54 + "-7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c"[:9]
    assert len({*ids}) == 3
    assert all(len(each) == 63 for each in ids)

"""The gates: order, thresholds met exactly, what is unavailable, and what identifies a policy."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.references import KeyReference
from api.rollout import DatasetReference, Evaluation
from api.status import EvaluationResult
from reconciler.evaluation.gates import judge
from reconciler.evaluation.policy import Policy, approval_id
from reconciler.evaluation.scores import Scores, compute_scores
from tests.reconciler.evaluation.score_tables import answered, confidences, tables

CONFIG_MAP = DatasetReference(config_map_ref=KeyReference(name="golden", key="cases.jsonl"))
SECRET = DatasetReference(secret_ref=KeyReference(name="golden", key="cases.jsonl"))
POOR = Scores(
    cases=10,
    failed_cases=0,
    calibrated=10,
    classifiable=10,
    accuracy=Fraction(5, 10),
    ece=0.5,
    brier=0.5,
    macro_f1=0.5,
    questions=(),
)
GOOD = replace(POOR, accuracy=Fraction(9, 10), ece=0.1, macro_f1=0.9)
GATES = {
    "min_accuracy": "0.9",
    "max_accuracy_drop": "0.1",
    "max_ece": "0.1",
    "max_ece_increase": "0.1",
    "min_macro_f1": "0.9",
    "max_macro_f1_drop": "0.1",
}


def policy(**gates: Any) -> Policy:
    defaults = {"min_accuracy": "0", "dataset": "cm/golden/cases.jsonl", "max_cases": 500, "score_tolerance": "0.5"}
    return Policy(**{**defaults, **gates})


def reason(candidate: Scores, baseline: Scores | None = None, **gates: Any) -> str:
    verdict = judge(policy(**gates), candidate, baseline)
    assert verdict.is_passed == (verdict.reason == "") == (verdict.result is EvaluationResult.PASSED)
    return verdict.reason


def test_each_gate_gives_its_reason_in_the_order_of_the_gates() -> None:
    reasons = []
    gates: dict[str, Any] = dict(GATES)
    while gates:
        reasons.append(reason(POOR, GOOD, **gates))
        del gates[next(iter(gates))]
    assert reasons == [
        "accuracy 0.5000 is below minAccuracy 0.9",
        "accuracy 0.5000 is further below the serving revision's 0.9000 than maxAccuracyDrop 0.1",
        "ECE 0.5000 is above maxECE 0.1",
        "ECE 0.5000 is further above the serving revision's 0.1000 than maxECEIncrease 0.1",
        "macro-F1 0.5000 is below minMacroF1 0.9",
        "macro-F1 0.5000 is further below the serving revision's 0.9000 than maxMacroF1Drop 0.1",
    ]


def test_all_gates_at_their_thresholds_pass() -> None:
    candidate = replace(GOOD, ece=0.2, macro_f1=0.8)
    gates = {**GATES, "max_ece": "0.2", "min_macro_f1": "0.8"}
    assert reason(candidate, replace(GOOD, accuracy=Fraction(1)), **gates) == ""


# The doubles of these thresholds and differences miss each other by a last digit.
@pytest.mark.parametrize(("correct", "total", "threshold"), [(7, 10, "0.7"), (3, 10, "0.3"), (87, 100, "0.87")])
def test_accuracy_exactly_at_the_threshold_passes(correct: int, total: int, threshold: str) -> None:
    at = replace(GOOD, accuracy=Fraction(correct, total))
    assert reason(at, min_accuracy=threshold) == ""
    assert reason(at, min_accuracy=f"{threshold}00000000001") != ""
    baseline = replace(GOOD, accuracy=Fraction(1))
    drop = f"{1 - float(threshold):.2f}"
    assert reason(at, baseline, max_accuracy_drop=drop) == ""
    assert reason(replace(at, accuracy=at.accuracy - Fraction(1, 10**12)), baseline, max_accuracy_drop=drop) != ""


@given(ten_thousandths=st.integers(0, 10_000), off=st.sampled_from([0, 1, -1]))
def test_a_mean_of_floats_passes_exactly_at_the_threshold(ten_thousandths: int, off: int) -> None:
    threshold = f"{ten_thousandths / 10_000:.4f}"
    # A hundred items right with a confidence each: the error is 1 - confidence, in many float steps.
    measured = compute_scores([answered("a", confidence=1 - (ten_thousandths + off / 100) / 10_000)] * 100)
    if 0 <= ten_thousandths + off <= 10_000:
        assert (reason(measured, max_ece=threshold) == "") is (off <= 0)


@given(thirds=st.integers(1, 50))
def test_f1_passes_exactly_at_the_threshold(thirds: int) -> None:
    table = [answered("a"), answered("b"), answered("b", "b"), answered("b", "b")] * thirds
    exact = (Fraction(2, 3) + Fraction(4, 5)) / 2
    at = compute_scores(table)
    assert at.macro_f1 == pytest.approx(float(exact))
    assert reason(replace(at, macro_f1=0.7 + 1e-16), min_macro_f1="0.7") == ""
    assert reason(at, min_macro_f1="0.7334") != ""
    assert reason(at, min_macro_f1="0.7333") == ""


@pytest.mark.parametrize("gate", ["max_ece", "max_ece_increase"])
def test_a_calibration_gate_without_calibrated_items_fails(gate: str) -> None:
    blind = replace(GOOD, calibrated=0, ece=None, brier=None)
    assert reason(blind, GOOD, **{gate: "1"}).startswith("CalibrationUnavailable: ")
    assert reason(blind, GOOD) == ""


@pytest.mark.parametrize("gate", ["min_macro_f1", "max_macro_f1_drop"])
def test_a_classification_gate_without_classifiable_items_fails(gate: str) -> None:
    blind = replace(GOOD, classifiable=0, macro_f1=None)
    assert reason(blind, GOOD, **{gate: "0"}).startswith("ClassificationUnavailable: ")
    assert reason(blind, GOOD) == ""


def test_an_unavailable_figure_is_found_before_a_poor_one() -> None:
    gates = {"max_ece": "0", "max_ece_increase": "0"}
    assert reason(POOR, replace(GOOD, ece=None), **gates).startswith("CalibrationUnavailable")
    assert reason(POOR, replace(GOOD, ece=None), max_ece="0") == "ECE 0.5000 is above maxECE 0"


def test_without_a_baseline_relative_gates_are_left_out() -> None:
    relative = {"max_accuracy_drop": "0", "max_ece_increase": "0", "max_macro_f1_drop": "0"}
    assert reason(replace(POOR, ece=None, macro_f1=None), None, **relative) == ""
    assert reason(POOR, GOOD, **relative) != ""


@given(candidate=tables.map(compute_scores), baseline=st.none() | tables.map(compute_scores))
def test_a_candidate_passes_gates_at_its_own_figures(candidate: Scores, baseline: Scores | None) -> None:
    limits: dict[str, Any] = {"max_accuracy_drop": "1", "max_ece_increase": "1", "max_macro_f1_drop": "1"}
    digits = 10**12
    gates = {"min_accuracy": f"0.{candidate.accuracy.numerator * digits // candidate.accuracy.denominator:012}"}
    if candidate.accuracy == 1:
        gates = {"min_accuracy": "1"}
    if candidate.ece is not None and (baseline is None or baseline.ece is not None):
        gates |= {"max_ece": f"{candidate.ece:.12f}", "max_ece_increase": limits["max_ece_increase"]}
    if candidate.macro_f1 is not None and (baseline is None or baseline.macro_f1 is not None):
        gates |= {"min_macro_f1": f"{candidate.macro_f1:.12f}", "max_macro_f1_drop": limits["max_macro_f1_drop"]}
    assert reason(candidate, baseline, max_accuracy_drop="1", **gates) == ""


@given(table=tables, threshold=confidences)
def test_a_higher_bar_never_lets_more_through(table: list[Any], threshold: float) -> None:
    scores = compute_scores(table)
    passes = reason(scores, min_accuracy=f"{threshold:.4f}") == ""
    assert passes == (scores.accuracy >= Fraction(f"{threshold:.4f}"))


def test_the_policy_is_the_spec_as_it_is_written() -> None:
    evaluation = Evaluation(
        dataset_ref=SECRET, min_accuracy="0.850", max_ece="0.10", max_macro_f1_drop="0.05", score_tolerance="1"
    )
    read = Policy.of(evaluation, extra=("statistics.method=paired",))
    assert read == policy(
        min_accuracy="0.850",
        max_ece="0.10",
        max_macro_f1_drop="0.05",
        dataset="secret/golden/cases.jsonl",
        score_tolerance="1",
        extra=("statistics.method=paired",),
    )
    assert read.tolerance == 1
    assert Policy.of(Evaluation(dataset_ref=CONFIG_MAP, min_accuracy="0")) == policy()


@pytest.mark.parametrize(
    ("gates", "is_relative"),
    [
        ({}, False),
        ({"max_ece": "0.1", "min_macro_f1": "0.1"}, False),
        ({"max_accuracy_drop": "0"}, True),
        ({"max_ece_increase": "0.1"}, True),
        ({"max_macro_f1_drop": "0.1"}, True),
    ],
)
def test_a_baseline_is_needed_for_relative_gates_only(gates: dict[str, str], is_relative: bool) -> None:
    assert policy(**gates).is_relative is is_relative


@pytest.mark.parametrize(
    ("gates", "text"),
    [
        ({}, "0|||||500|0.5|1"),
        ({"max_ece": "0.1", "max_accuracy_drop": "0.05"}, "0|0.05|0.1|||500|0.5|1"),
        ({"min_macro_f1": "0.8"}, "0|||||500|0.5|1|minMacroF1=0.8"),
        (
            {"max_ece_increase": "0", "max_macro_f1_drop": "0.1", "min_macro_f1": "0.8", "extra": ("x=1", "y=2")},
            "0|||0||500|0.5|1|minMacroF1=0.8|maxMacroF1Drop=0.1|x=1|y=2",
        ),
    ],
)
def test_the_hash_is_over_the_documented_fields(gates: dict[str, Any], text: str) -> None:
    parts = text.split("|")
    parts[4] = "cm/golden/cases.jsonl"
    expected = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]
    assert policy(**gates).hash == expected


def test_everything_a_verdict_depends_on_changes_the_hash() -> None:
    changes: list[dict[str, Any]] = [{name: "0.123"} for name in GATES]
    changes += [{}, {"dataset": "secret/golden/cases.jsonl"}, {"max_cases": 499}, {"score_tolerance": "0.50"}]
    changes += [{"extra": ("x=1",)}]
    assert len({policy(**change).hash for change in changes}) == len(changes)


def test_an_approval_names_revision_policy_and_data_set() -> None:
    approved = approval_id("ab" * 8, "cd" * 8, "ef" * 8)
    assert approved == hashlib.sha256(b"abababababababab" + b"cdcdcdcdcdcdcdcd" + b"efefefefefefefef").hexdigest()[:12]
    others = {approval_id("00" * 8, "cd" * 8, "ef" * 8), approval_id("ab" * 8, "00" * 8, "ef" * 8)}
    assert approved not in others | {approval_id("ab" * 8, "cd" * 8, "00" * 8)}

"""Figures of tables: by hand, by independent computations, and what holds for every table."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, brier_score_loss, f1_score

from reconciler.evaluation.scores import Scores, compute_scores
from reconciler.evaluation.table import Item, QuestionKind
from tests.reconciler.evaluation.score_tables import answered, placed, tables


def test_accuracy_is_correct_over_all_questions() -> None:
    scores = compute_scores([answered("a"), answered("b"), placed(True), answered(None)])
    assert scores.accuracy == Fraction(2, 4)


def test_cases_are_lines_and_a_case_fails_once() -> None:
    table = [answered("a", line=1), answered(None, line=2), answered(None, line=2, question="r"), answered("b", line=4)]
    scores = compute_scores(table)
    assert (scores.cases, scores.failed_cases) == (3, 1)


def test_calibration_error_by_hand() -> None:
    # Bin 0.6: two items, mean confidence 0.65, accuracy 0.5, gap 0.15. Bin 0.9: 0.95 and right twice, gap 0.05.
    table = [
        answered("a", confidence=0.6),
        answered("b", confidence=0.7 - 1e-9),
        answered("a", confidence=0.9),
        answered("a", confidence=1.0),
    ]
    scores = compute_scores(table)
    assert scores.ece == pytest.approx((2 * 0.15 + 2 * 0.05) / 4)
    assert scores.brier == pytest.approx((0.16 + 0.49 + 0.01 + 0) / 4)
    assert scores.calibrated == 4


@pytest.mark.parametrize(
    ("right", "wrong", "is_one_bin"),
    [(0.0, 0.0999, True), (0.0, 0.1, False), (0.1, 0.1999, True), (0.3, 0.2999, False), (0.9, 1.0, True)],
)
def test_bins_include_their_lower_bound_and_the_last_one_both(right: float, wrong: float, is_one_bin: bool) -> None:
    table = [answered("a", confidence=right), answered("b", confidence=wrong)]
    too_low, too_high = 1 - right, wrong
    # In one bin, errors of both signs cancel out.
    expected = abs(too_high - too_low) if is_one_bin else too_high + too_low
    assert compute_scores(table).ece == pytest.approx(expected / 2)


def test_calibration_takes_its_own_notion_of_correct() -> None:
    within_tolerance = [placed(True, confidence=0.8, calibration_correct=False)]
    scores = compute_scores(within_tolerance)
    assert scores.accuracy == 1
    assert (scores.ece, scores.brier) == pytest.approx((0.8, 0.64))


@pytest.mark.parametrize("tenths", range(10))
def test_a_tenth_opens_its_bin(tenths: int) -> None:
    # In one bin with the item just above, errors of both signs cancel; in two bins they add up.
    edge, above = tenths / 10, tenths / 10 + 0.05
    table = [answered("a", confidence=edge), answered("b", confidence=above)]
    assert compute_scores(table).ece == pytest.approx(abs(edge - 1 + above) / 2)


def test_f1_by_hand() -> None:
    # a: 2 hits, expected 3, predicted 2: 4/5. b: 1 hit, expected 1, predicted 2: 2/3. c is never expected: 0.
    table = [
        answered("a"),
        answered("a"),
        answered("b"),
        answered("b", "b"),
        answered("c", "d"),
    ]
    # d: expected once, never predicted: 0.
    scores = compute_scores(table)
    assert scores.macro_f1 == pytest.approx((4 / 5 + 2 / 3 + 0 + 0) / 4)
    assert scores.classifiable == 5


def test_f1_is_the_mean_over_questions_and_leaves_scores_out() -> None:
    table = [answered("a"), answered("b", question="r"), *[placed(False)] * 7]
    scores = compute_scores(table)
    assert scores.macro_f1 == pytest.approx((1 + 0) / 2)
    assert scores.classifiable == 2
    assert [each.macro_f1 for each in scores.questions] == [1.0, 0.0, None]


def test_a_missing_answer_is_a_miss_of_its_label() -> None:
    # Two of three expected, nothing else predicted: 2 * 2 / (3 + 2).
    assert compute_scores([answered("a"), answered("a"), answered(None)]).macro_f1 == pytest.approx(4 / 5)


def test_missing_answers_never_improve_calibration() -> None:
    poor = [answered("b", confidence=0.9)] * 4
    before, after = compute_scores(poor), compute_scores([*poor, *[answered(None, line=2)] * 96])
    assert (after.ece, after.brier, after.calibrated) == (before.ece, before.brier, 4)
    assert after.accuracy == 0
    assert after.failed_cases == 1


def test_figures_that_nothing_counts_towards_do_not_exist() -> None:
    scores = compute_scores([placed(True, calibrated=False)])
    assert (scores.ece, scores.brier, scores.macro_f1) == (None, None, None)
    assert (scores.calibrated, scores.classifiable) == (0, 0)


def test_nothing_is_no_success() -> None:
    with pytest.raises(ValueError, match="no items"):
        compute_scores([])


def test_questions_are_scored_apart_and_sorted() -> None:
    scores = compute_scores([answered("a", question="z"), answered("b", question="b"), answered("a", question="b")])
    assert [(each.question, each.items, each.accuracy) for each in scores.questions] == [
        ("b", 2, Fraction(1, 2)),
        ("z", 1, Fraction(1)),
    ]


@given(table=tables, seed=st.randoms(use_true_random=False))
def test_order_does_not_matter(table: list[Item], seed: random.Random) -> None:
    shuffled = list(table)
    seed.shuffle(shuffled)
    assert compute_scores(shuffled) == compute_scores(table)


@given(table=tables)
def test_figures_stay_in_bounds(table: list[Item]) -> None:
    scores = compute_scores(table)
    assert 0 <= scores.accuracy <= 1
    for figure in (scores.ece, scores.brier, scores.macro_f1):
        assert figure is None or 0 <= figure <= 1
    assert scores.failed_cases <= scores.cases <= len(table)
    assert max(scores.calibrated, scores.classifiable) <= len(table)
    assert (scores.ece is None) == (scores.brier is None) == (scores.calibrated == 0)
    assert sum(each.items for each in scores.questions) == len(table)


@given(table=tables)
def test_repeating_a_table_changes_no_figure(table: list[Item]) -> None:
    once, twice = compute_scores(table), compute_scores(table * 2)
    assert once.accuracy == twice.accuracy
    for name in ("ece", "brier", "macro_f1"):
        assert getattr(twice, name) == pytest.approx(getattr(once, name))


def without_one(table: list[Item]) -> list[Item]:
    return [replace(table[0], correct=False, calibration_correct=False, predicted="elsewhere"), *table[1:]]


@given(table=tables)
def test_a_lost_answer_never_raises_accuracy(table: list[Item]) -> None:
    assert compute_scores(without_one(table)).accuracy <= compute_scores(table).accuracy


def independent_ece(table: list[Item]) -> float | None:
    """The definition, over every bin, without any of the rearrangements of the code."""
    counted = [item for item in table if item.calibrated]
    gaps = []
    for number in range(10):
        lower, upper = Fraction(number, 10), Fraction(number + 1, 10)
        inside = [
            item
            for item in counted
            if lower <= exact(item.confidence) < upper or (upper == exact(item.confidence) == 1)
        ]
        if inside:
            confidence = sum((exact(item.confidence) for item in inside), Fraction(0)) / len(inside)
            accuracy = Fraction(sum(item.calibration_correct for item in inside), len(inside))
            gaps.append(Fraction(len(inside), len(counted)) * abs(confidence - accuracy))
    return float(sum(gaps)) if counted else None


def exact(number: float) -> Fraction:
    return Fraction(repr(number))


@given(table=tables)
def test_figures_agree_with_independent_computations(table: list[Item]) -> None:
    scores = compute_scores(table)
    assert scores.ece == pytest.approx(independent_ece(table))
    assert float(scores.accuracy) == pytest.approx(
        accuracy_score([True] * len(table), [each.correct for each in table])
    )
    counted = [item for item in table if item.calibrated]
    if counted:
        truth = [int(item.calibration_correct) for item in counted]
        brier = brier_score_loss(truth, [item.confidence for item in counted], pos_label=1)
        assert scores.brier == pytest.approx(brier)
    assert scores.macro_f1 == pytest.approx(independent_f1(table, scores))


def independent_f1(table: list[Item], scores: Scores) -> float | None:
    """scikit-learn's, with a label of its own for answers that are missing."""
    figures: list[Any] = []
    for question in sorted({item.question for item in table}):
        rows = [item for item in table if item.question == question and item.kind is not QuestionKind.SCORE]
        if rows:
            truth = [item.expected for item in rows]
            guess = [item.predicted or "<none>" for item in rows]
            labels = sorted({*truth, *guess} - {"<none>"})
            figures.append(f1_score(truth, guess, labels=labels, average="macro", zero_division=0))
    assert [each.macro_f1 for each in scores.questions if each.macro_f1 is not None] == pytest.approx(figures)
    return sum(figures) / len(figures) if figures else None

"""What one answer is worth (spec section 7.3)."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.decisions import parse_answers
from reconciler.evaluation.dataset import parse_dataset
from reconciler.evaluation.scoring import score_case
from reconciler.evaluation.table import Item, QuestionKind
from tests.reconciler.evaluation.golden_lines import QUESTIONS, line

HALF = Fraction(1, 2)


def items(answers: Any, default_tolerance: Fraction = HALF, **members: Any) -> dict[str, Item]:
    """Items by question of the case that `line` gives, answered over the wire."""
    (case,) = parse_dataset(line(**members), 1).cases
    body = json.dumps({"model": "laya:en", "answers": answers, "usage": {}}).encode()
    return {item.question: item for item in score_case(case, parse_answers(body), default_tolerance, 0.25)}


def choice(answer: Any, expected: str = "billing") -> Item:
    return items({"team": {"type": "choice", **answer}}, expected={"team": expected})["team"]


def noul(answer: Any, expected: bool) -> Item:
    return items({"refund": {"type": "noul", "noul": answer}}, expected={"refund": expected})["refund"]


def score(answer: Any, expected: int = 2, tolerance: str = "0.5") -> Item:
    answers = {"urgency": {"type": "score", **answer}}
    return items(answers, Fraction(tolerance), expected={"urgency": expected})["urgency"]


def test_a_right_choice_has_the_confidence_of_its_label() -> None:
    item = choice({"choice": "billing", "confidence": 0.55, "probabilities": {"billing": 0.7, "tech": 0.2}})
    assert item == Item(
        line=1,
        question="team",
        kind=QuestionKind.CHOICE,
        expected="billing",
        predicted="billing",
        correct=True,
        confidence=0.7,
        calibration_correct=True,
        probabilities={"billing": 0.7, "tech": 0.2},
        seconds=0.25,
    )


def test_a_wrong_choice_is_as_sure_of_itself_as_it_says() -> None:
    item = choice({"choice": "tech", "probabilities": {"billing": 0.7, "tech": 0.2, "other": 0.1}})
    assert (item.predicted, item.correct, item.confidence, item.calibration_correct) == ("tech", False, 0.2, False)


@pytest.mark.parametrize("probabilities", [{}, {"probabilities": None}, {"probabilities": {"tech": 0.9}}])
def test_a_choice_without_its_own_probability_has_confidence_zero(probabilities: Any) -> None:
    item = choice({"choice": "billing", **probabilities})
    assert (item.correct, item.confidence, item.calibrated) == (True, 0.0, True)


@pytest.mark.parametrize("hair", [1.0000001, 1 + 2**-20, -1e-7])
def test_a_probability_a_hair_outside_its_bounds_is_an_answer(hair: float) -> None:
    bound = round(hair)

    given = choice({"choice": "billing", "probabilities": {"billing": hair, "tech": 1 - hair}})
    assert (given.confidence, given.probabilities) == (bound, {"billing": bound, "tech": 1 - bound})
    assert noul(hair, expected=bool(bound)).confidence == 1
    assert score({"score": 2, "probabilities": {"0": 0, "1": 1 - hair, "2": hair}}).calibrated


@pytest.mark.parametrize("far", [1.001, -0.001])
def test_a_probability_further_outside_is_none(far: float) -> None:
    assert choice({"choice": "billing", "probabilities": {"billing": far}}).predicted is None
    assert noul(far, expected=True).predicted is None
    assert not score({"score": 2, "probabilities": {"0": 0, "1": 1 - far, "2": far}}).calibrated


def test_probabilities_of_labels_that_nobody_asked_about_are_dropped() -> None:
    item = choice({"choice": "billing", "probabilities": {"billing": 0.7, "x" * 1000: 0.3}})
    assert item.probabilities == {"billing": 0.7}


def test_an_expected_label_outside_the_criteria_can_still_be_answered() -> None:
    assert choice({"choice": "sales"}, expected="sales").correct


@pytest.mark.parametrize(
    ("answer", "expected", "predicted", "confidence"),
    [
        (0.9, True, "true", 0.9),
        (0.5, True, "true", 0.5),
        (0.4999, False, "false", 0.5001),
        (0, False, "false", 1.0),
        (1, True, "true", 1.0),
    ],
)
def test_a_noul_holds_from_even_odds_on(answer: float, expected: bool, predicted: str, confidence: float) -> None:
    for wanted in (True, False):
        item = noul(answer, wanted)
        assert (item.predicted, item.correct, item.calibration_correct) == (predicted, *(wanted is expected,) * 2)
        assert item.expected == ("true" if wanted else "false")
        assert item.confidence == pytest.approx(confidence)


@pytest.mark.parametrize(
    ("answer", "expected", "tolerance", "correct"),
    [
        (1.6, 2, "0.5", True),
        (1.5, 2, "0.5", True),
        (1.4999, 2, "0.5", False),
        (2.5, 2, "0.5", True),
        (1.7, 2, "0.3", True),  # as doubles the difference is above 0.3
        (0.3, 0, "0.3", True),
        (0.3001, 0, "0.3", False),
        (2, 2, "0", True),
        (9, 2, "100", True),
    ],
)
def test_a_score_may_be_off_by_the_tolerance_and_no_more(
    answer: float, expected: int, tolerance: str, correct: bool
) -> None:
    assert score({"score": answer}, expected, tolerance).correct is correct


@pytest.mark.parametrize(("of_case", "correct"), [(0, False), (0.4, True), (1, True)])
def test_the_tolerance_of_the_case_goes_first(of_case: float, correct: bool) -> None:
    answers = {"urgency": {"type": "score", "score": 1.6}}
    assert items(answers, HALF, tolerance={"urgency": of_case})["urgency"].correct is correct


def test_for_calibration_the_likeliest_level_counts() -> None:
    item = score({"score": 1.1, "probabilities": {"0": 0.4, "1": 0.1, "2": 0.5}}, tolerance="0.5")
    assert (item.correct, item.calibrated, item.calibration_correct, item.confidence) == (False, True, True, 0.5)
    assert item.probabilities == {"0": 0.4, "1": 0.1, "2": 0.5}


def test_the_lowest_of_equally_likely_levels_counts() -> None:
    answer = {"score": 1.0, "probabilities": {"2": 0.5, "0": 0.5, "1": 0.0}}
    assert score(answer, expected=0).calibration_correct
    assert not score(answer, expected=2).calibration_correct


@pytest.mark.parametrize(
    ("probabilities", "calibrated"),
    [
        ({"0": 0.99, "1": 0.0}, True),
        ({"0": 0.9899, "1": 0.0}, False),
        ({"0": 0.51, "1": 0.5}, True),
        ({"0": 0.5101, "1": 0.5}, False),
        ({"0": 1.0}, False),
        ({}, False),
        (None, False),
        ({"0": 0.5, "2": 0.5}, False),
        ({"1": 0.5, "2": 0.5}, False),
        ({"00": 0.5, "1": 0.5}, False),
        ({"low": 0.5, "high": 0.5}, False),
        ({"0": 1.5, "1": -0.5}, False),
        ({"0": 1e308, "1": 1e308}, False),
        ({str(level): 0.1 for level in range(10)}, True),
        ({str(level): 1 / 11 for level in range(11)}, False),
    ],
)
def test_a_score_counts_towards_calibration_only_with_a_whole_distribution(
    probabilities: Any, calibrated: bool
) -> None:
    item = score({"score": 2.0, "probabilities": probabilities})
    assert (item.correct, item.calibrated) == (True, calibrated)
    assert bool(item.probabilities) is calibrated
    assert item.confidence == (max(probabilities.values()) if calibrated else 0.0)


UNUSABLE: list[Any] = [
    {},
    None,
    "billing",
    {"type": "choice"},
    {"type": "choice", "choice": None},
    {"type": "choice", "choice": 7},
    {"type": "choice", "choice": "nobody asked about this"},
    {"type": "choice", "choice": "billing", "probabilities": {"billing": 1.5}},
    {"type": "choice", "choice": "billing", "probabilities": [0.7, 0.3]},
    {"type": "box", "choice": "billing"},
    {"choice": "billing"},
    {"type": "noul", "noul": "0.9"},
    {"type": "noul", "noul": 1.0001},
    {"type": "noul", "noul": -0.1},
    {"type": "noul", "noul": True},
    {"type": "score", "score": 1e300},
    {"type": "score", "score": "2"},
    {"type": "score", "score": 2, "probabilities": "all"},
]


@pytest.mark.parametrize("answer", UNUSABLE, ids=str)
@pytest.mark.parametrize("question", QUESTIONS)
def test_an_unusable_answer_is_as_good_as_none(question: str, answer: Any) -> None:
    by_question = items({question: answer})
    assert by_question[question] == items({})[question]
    assert (by_question[question].predicted, by_question[question].correct) == (None, False)
    assert (by_question[question].calibrated, by_question[question].confidence) == (False, 0.0)


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_to_another_type_of_question_is_unusable(question: str) -> None:
    good = {
        "team": {"type": "choice", "choice": "billing"},
        "refund": {"type": "noul", "noul": 0.9},
        "urgency": {"type": "score", "score": 2},
    }
    assert items(good)[question].correct
    for answer in (answer for other, answer in good.items() if other != question):
        assert items({question: answer})[question].predicted is None


def test_one_bad_answer_does_not_spoil_the_others() -> None:
    by_question = items({"team": 7, "refund": {"type": "noul", "noul": 0.9}, "more": {"type": "noul", "noul": 1}})
    assert {question: item.correct for question, item in by_question.items()} == {
        "team": False,
        "refund": True,
        "urgency": False,
    }


numbers = st.floats(-2, 12, allow_nan=False) | st.integers(-(10**30), 10**30)
probabilities = st.none() | st.dictionaries(st.sampled_from(["0", "1", "2", "billing", "tech"]), numbers, max_size=4)
answers = st.dictionaries(
    st.sampled_from(list(QUESTIONS)),
    st.none()
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["choice", "noul", "score"])},
        optional={
            "choice": st.sampled_from(["billing", "tech", "unknown"]),
            "noul": numbers,
            "score": numbers,
            "probabilities": probabilities,
        },
    ),
)


@given(answers=answers, tolerance=st.fractions(0, 3))
def test_whatever_is_answered_each_question_has_one_sound_item(answers: Any, tolerance: Fraction) -> None:
    by_question = items(answers, tolerance)
    assert list(by_question) == list(QUESTIONS)
    for item in by_question.values():
        assert 0 <= item.confidence <= 1
        assert all(0 <= each <= 1 for each in item.probabilities.values())
        assert item.predicted is not None or not (item.correct or item.calibrated)
        assert item.calibrated or not item.calibration_correct
        if item.kind is not QuestionKind.SCORE:
            assert item.correct == (item.predicted == item.expected)

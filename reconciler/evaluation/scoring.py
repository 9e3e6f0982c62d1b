"""Judging the answers to one case (spec section 7.3). Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from reconciler.engine.decisions import Answer, ChoiceAnswer, NoulAnswer, ScoreAnswer
from reconciler.evaluation.dataset import Case, ExpectedAnswer
from reconciler.evaluation.table import Item, QuestionKind

_EVEN_ODDS: Final = 0.5
_LEVELS: Final = range(2, 11)
_SUM_TOLERANCE: Final = 1e-2
# So that a sum exactly at the limit is inside, however it was rounded.
_ROUNDING: Final = 1e-9


def score_case(case: Case, answers: Mapping[str, Answer], tolerance: Fraction, seconds: float) -> tuple[Item, ...]:
    """One item for each expected answer, in the data set's order.

    Args:
        case: What was asked.
        answers: What the runtime answered, by question id.
        tolerance: How far a score may be off where the case does not say.
        seconds: Latency of the call.
    """
    return tuple(_item(case.line, each, answers.get(each.question), tolerance, seconds) for each in case.expected)


def _item(line: int, expected: ExpectedAnswer, answer: Answer | None, tolerance: Fraction, seconds: float) -> Item:
    match expected.kind, answer:
        case QuestionKind.CHOICE, ChoiceAnswer() if _is_asked_for(answer.choice, expected):
            return _choice(line, expected, answer, seconds)
        case QuestionKind.NOUL, NoulAnswer():
            return _noul(line, expected, answer, seconds)
        case QuestionKind.SCORE, ScoreAnswer():
            allowed = tolerance if expected.tolerance is None else expected.tolerance
            return _score(line, expected, answer, allowed, seconds)
        case _:
            return _failed(line, expected, seconds)


def _is_asked_for(label: str, expected: ExpectedAnswer) -> bool:
    """Whether a label is one to choose from. Others are no answer, and would let a Pod fill the memory with its own."""
    return label == expected.value or label in expected.labels


def _failed(line: int, expected: ExpectedAnswer, seconds: float) -> Item:
    """A missing or unusable answer: wrong, and no part of calibration.

    As confidence 0 and wrong it would count as perfectly calibrated, so that a model would look the better calibrated
    the less it answers.
    """
    return Item(
        line=line,
        question=expected.question,
        kind=expected.kind,
        expected=_text(expected),
        predicted=None,
        correct=False,
        calibrated=False,
        seconds=seconds,
    )


def _choice(line: int, expected: ExpectedAnswer, answer: ChoiceAnswer, seconds: float) -> Item:
    given = answer.probabilities or {}
    correct = answer.choice == expected.value
    return Item(
        line=line,
        question=expected.question,
        kind=expected.kind,
        expected=_text(expected),
        predicted=answer.choice,
        correct=correct,
        confidence=given.get(answer.choice, 0.0),
        calibration_correct=correct,
        probabilities={label: given[label] for label in expected.labels if label in given},
        seconds=seconds,
    )


def _noul(line: int, expected: ExpectedAnswer, answer: NoulAnswer, seconds: float) -> Item:
    holds = answer.noul >= _EVEN_ODDS
    return Item(
        line=line,
        question=expected.question,
        kind=expected.kind,
        expected=_text(expected),
        predicted=_truth(holds),
        correct=holds == expected.value,
        confidence=max(answer.noul, 1 - answer.noul),
        calibration_correct=holds == expected.value,
        seconds=seconds,
    )


def _score(line: int, expected: ExpectedAnswer, answer: ScoreAnswer, tolerance: Fraction, seconds: float) -> Item:
    distribution = _distribution(answer.probabilities or {})
    likeliest = max(range(len(distribution)), key=distribution.__getitem__, default=None)  # the lowest of equals
    # By way of its digits: 1.7 is 0.3 off from 2, the double next to it is more.
    off = abs(Fraction(repr(answer.score)) - int(expected.value))
    return Item(
        line=line,
        question=expected.question,
        kind=expected.kind,
        expected=_text(expected),
        predicted=repr(answer.score),
        correct=off <= tolerance,
        confidence=max(distribution, default=0.0),
        calibrated=likeliest is not None,
        calibration_correct=likeliest == expected.value,
        probabilities={str(level): probability for level, probability in enumerate(distribution)},
        seconds=seconds,
    )


def _distribution(probabilities: Mapping[str, float]) -> tuple[float, ...]:
    """Probability of each level from 0, nothing unless it is one of 2 to 10 levels and adds up to 1."""
    levels = [str(level) for level in range(len(probabilities))]
    if len(levels) not in _LEVELS or probabilities.keys() != set(levels):
        return ()
    distribution = tuple(probabilities[level] for level in levels)
    if not all(0 <= each <= 1 for each in distribution):
        return ()
    return distribution if abs(math.fsum(distribution) - 1) <= _SUM_TOLERANCE + _ROUNDING else ()


def _text(expected: ExpectedAnswer) -> str:
    return _truth(expected.value) if isinstance(expected.value, bool) else str(expected.value)


def _truth(holds: bool) -> str:
    return "true" if holds else "false"

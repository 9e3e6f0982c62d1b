"""Figures of a table of items: accuracy, calibration, macro-averaged F1 (spec section 7.3). Pure.

Every figure is independent of the order of the items: counts are integers, and sums of floats are rounded once, at the
end (`math.fsum`).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from reconciler.evaluation.table import Item, QuestionKind

SCORER_VERSION: Final = 1
"""Identifies the rules by which figures are computed; another version makes evaluations incomparable."""

_BINS: Final = 10
_CLASSIFIABLE: Final = (QuestionKind.CHOICE, QuestionKind.NOUL)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionScores:
    """The figures of one question; no macro-averaged F1 for a score question."""

    question: str
    items: int
    accuracy: Fraction
    macro_f1: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The figures of one revision on one data set; None where no item counts towards a figure."""

    cases: int
    """How many cases were asked."""
    failed_cases: int
    """How many of them have a missing or unusable answer."""
    calibrated: int
    """How many items count towards calibration."""
    classifiable: int
    """How many items count towards F1."""
    accuracy: Fraction
    """Correct over all items, exactly."""
    ece: float | None
    """Expected calibration error."""
    brier: float | None
    """Mean squared difference of confidence and correctness."""
    macro_f1: float | None
    """Mean over questions of the mean F1 over labels."""
    questions: tuple[QuestionScores, ...]
    """By question id."""


def compute_scores(items: Sequence[Item]) -> Scores:
    """The figures of at least one item; a data set has one, so ValueError for none is a bug of the caller."""
    if not items:
        raise ValueError("no items: there is nothing to score, and nothing is no success")
    calibrated = [item for item in items if item.calibrated]
    questions = _question_scores(items)
    f1_of_questions = [each.macro_f1 for each in questions if each.macro_f1 is not None]
    return Scores(
        cases=len({item.line for item in items}),
        failed_cases=len({item.line for item in items if item.predicted is None}),
        calibrated=len(calibrated),
        classifiable=sum(map(_is_classifiable, items)),
        accuracy=_accuracy(items),
        ece=_expected_calibration_error(calibrated),
        brier=_mean([(item.confidence - item.calibration_correct) ** 2 for item in calibrated]),
        macro_f1=_mean(f1_of_questions),
        questions=questions,
    )


def _question_scores(items: Iterable[Item]) -> tuple[QuestionScores, ...]:
    by_question: Mapping[str, list[Item]] = defaultdict(list)
    for item in items:
        by_question[item.question].append(item)
    return tuple(
        QuestionScores(
            question=question,
            items=len(of_question),
            accuracy=_accuracy(of_question),
            macro_f1=_macro_f1(list(filter(_is_classifiable, of_question))),
        )
        for question, of_question in sorted(by_question.items())
    )


def _is_classifiable(item: Item) -> bool:
    """Whether an item counts towards F1. A failed one does: it is a miss of the expected label."""
    return item.kind in _CLASSIFIABLE


def _accuracy(items: Sequence[Item]) -> Fraction:
    return Fraction(sum(item.correct for item in items), len(items))


def _expected_calibration_error(items: Sequence[Item]) -> float | None:
    """Mean gap between confidence and accuracy over ten bins of equal width, weighted by their items.

    A bin includes its lower bound; the last one both.
    """
    if not items:
        return None
    bins: Mapping[int, list[Item]] = defaultdict(list)
    for item in items:
        bins[min(int(item.confidence * _BINS), _BINS - 1)].append(item)
    # The share of a bin times a difference of means is the difference of sums over all items.
    return math.fsum(map(_gap, bins.values())) / len(items)


def _gap(items: Iterable[Item]) -> float:
    return abs(math.fsum(item.confidence - item.calibration_correct for item in items))


def _macro_f1(items: Sequence[Item]) -> float | None:
    """Unweighted mean of the F1 of every label that was expected or predicted; None without items."""
    expected = Counter(item.expected for item in items)
    predicted = Counter(item.predicted for item in items if item.predicted is not None)
    hits = Counter(item.expected for item in items if item.correct)
    # 2 TP / (2 TP + FP + FN), whose denominator is the two counts: never zero for a label of either.
    return _mean([2 * hits[label] / (expected[label] + predicted[label]) for label in expected | predicted])


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None

"""What cannot be compared is rejected with a code, before any number is looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from reconciler.evaluation.judgement import judge
from reconciler.evaluation.stored_table import PRECISIONS, store
from reconciler.evaluation.table import Item, QuestionKind
from reconciler.evaluation.validity import find_invalidity
from reconciler.evaluation.verdict import Code, Decision
from tests.reconciler.evaluation.paired_tables import EXACT, choice, choices, judged, parameters

GOOD = choices([True] * 50)
FAILED: dict[str, Any] = {"predicted": None, "correct": False, "probabilities": {}, "confidence": 0.0}


def changed(**fields: Any) -> list[Item]:
    return [*GOOD[:-1], replace(GOOD[-1], **fields)]


@pytest.mark.parametrize(
    ("stable", "candidate", "code"),
    [
        ([], [], Code.NO_ITEMS),
        ([*GOOD, GOOD[3]], [*GOOD, GOOD[3]], Code.DUPLICATE_ITEMS),
        (GOOD, [*GOOD, GOOD[3]], Code.DUPLICATE_ITEMS),
        (GOOD, GOOD[1:], Code.ITEMS_DIFFER),
        (GOOD, [], Code.ITEMS_DIFFER),
        (GOOD, [*GOOD[:-1], choice(51, True)], Code.ITEMS_DIFFER),
        (GOOD, changed(expected="b"), Code.EXPECTATIONS_DIFFER),
        (GOOD, changed(kind=QuestionKind.SCORE), Code.EXPECTATIONS_DIFFER),
        (changed(**FAILED), GOOD, Code.UNANSWERED_BY_STABLE),
        (GOOD, changed(**FAILED), Code.UNANSWERED_BY_CANDIDATE),
        (GOOD, changed(probabilities={"a": float("nan"), "b": 0.5}), Code.INVALID_PROBABILITIES),
        (GOOD, changed(probabilities={"a": float("inf"), "b": 0.0}), Code.INVALID_PROBABILITIES),
        (GOOD, changed(probabilities={"a": 1.2, "b": -0.2}), Code.INVALID_PROBABILITIES),
        (GOOD, changed(probabilities={"a": 0.5, "b": 0.48}), Code.INVALID_PROBABILITIES),
        (GOOD, changed(confidence=float("nan")), Code.INVALID_PROBABILITIES),
        (GOOD, changed(probabilities={"a": 0.5, "c": 0.5}), Code.LABEL_SETS_DIFFER),
        (GOOD, changed(probabilities={}), Code.LABEL_SETS_DIFFER),
        (changed(expected="z"), changed(expected="z"), Code.UNKNOWN_LABEL),
    ],
)
def test_incomparable_tables(stable: list[Item], candidate: list[Item], code: Code) -> None:
    verdict = judged(stable, candidate)

    assert (verdict.decision, verdict.code) == (Decision.REJECT, code)
    assert verdict.comparison is None


def test_the_item_is_named() -> None:
    assert judged(GOOD, changed(**FAILED)).text == (
        "the candidate left a question without a usable answer (line 50, question q)"
    )


def test_a_sum_within_the_tolerance_is_one() -> None:
    nearly = changed(probabilities={"a": 0.505, "b": 0.505})

    assert judged(nearly, nearly).comparison is not None


def test_single_precision_may_be_a_hair_off() -> None:
    nearly = changed(probabilities={"a": 1.0000001, "b": -1e-7}, confidence=1.0000001)

    assert judged(nearly, nearly).comparison is not None


def test_statements_and_scores_need_no_probabilities() -> None:
    bare: dict[str, Any] = {"probabilities": {}}
    statement: dict[str, Any] = {"kind": QuestionKind.NOUL, "expected": "true", "predicted": "true", **bare}
    items = [replace(item, question=f"{item.question}{item.line % 2}", **statement) for item in GOOD]
    score = [replace(item, kind=QuestionKind.SCORE, expected="2", predicted="2.25", **bare) for item in GOOD]

    assert judged(items, items).comparison is not None
    assert judged(score, score).comparison is not None


def spread(labels: int, total: int) -> list[Item]:
    """Answers whose probabilities have four digits and add up to `total` ten-thousandths."""
    share, rest = divmod(total, labels)
    shares = {f"l{number}": (share + (number < rest)) / 10_000 for number in range(labels)}
    return [replace(item, expected="l0", predicted="l0", correct=True, probabilities=shares) for item in GOOD]


@pytest.mark.parametrize(
    ("labels", "total", "is_valid"),
    [
        (2, 10_100, True),
        (2, 10_101, False),
        (2, 9_899, False),
        (200, 10_100, True),
        (200, 10_102, False),
        (255, 10_128, True),
        (255, 9_872, True),
        (255, 10_129, False),
        (255, 9_871, False),
    ],
)
def test_a_sum_may_be_off_by_what_rounding_explains_and_no_more(labels: int, total: int, is_valid: bool) -> None:
    verdict = judged(spread(labels, total), spread(labels, total))

    assert (verdict.code is not Code.INVALID_PROBABILITIES) == is_valid


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=255))
@example([1] * 255)
@example([3] * 200)
def test_every_distribution_is_valid_after_rounding_to_four_digits(weights: list[int]) -> None:
    rounded = {f"l{number}": round(weight / sum(weights), 4) for number, weight in enumerate(weights)}
    items = [replace(GOOD[0], expected="l0", predicted="l0", correct=True, probabilities=rounded)]

    for precision in PRECISIONS:
        stored = store(items, precision)
        assert find_invalidity(stored, stored, precision) is None


def test_older_evidence_is_held_to_the_tolerance_of_its_time() -> None:
    table = store(spread(255, 10_127), EXACT)

    assert judge(table, table, parameters(rules=UNSET), EXACT).code is Code.INVALID_PROBABILITIES

"""What cannot be compared is rejected with a code, before any number is looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.evaluation.table import Item, QuestionKind
from reconciler.evaluation.verdict import Code, Decision
from tests.reconciler.evaluation.paired_tables import choice, choices, judged

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

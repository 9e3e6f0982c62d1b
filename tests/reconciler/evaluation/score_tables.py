"""Tables of items whose figures can be computed by hand."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from reconciler.evaluation.table import Item, QuestionKind

LABELS = ("a", "b", "c")


def answered(predicted: str | None, expected: str = "a", confidence: float = 1.0, **fields: Any) -> Item:
    """A choice that was answered with `predicted`; with None, a failed one."""
    correct = predicted == expected
    fields = {"line": 1, "question": "q", "kind": QuestionKind.CHOICE, **fields}
    if predicted is None:
        return Item(expected=expected, predicted=None, correct=False, calibrated=False, **fields)
    fields = {"calibration_correct": correct, **fields}
    return Item(expected=expected, predicted=predicted, correct=correct, confidence=confidence, **fields)


def placed(correct: bool, *, calibrated: bool = True, confidence: float = 1.0, **fields: Any) -> Item:
    """A score question."""
    fields = {"line": 1, "question": "s", "calibration_correct": correct and calibrated, **fields}
    return Item(
        kind=QuestionKind.SCORE,
        expected="2",
        predicted="2.0" if correct else "0.0",
        correct=correct,
        calibrated=calibrated,
        confidence=confidence,
        **fields,
    )


confidences = st.integers(0, 10_000).map(lambda parts: parts / 10_000)
"""Probabilities as the runtime gives them: with four decimals."""

_places = {"line": st.integers(1, 8), "question": st.sampled_from(["q", "r", "s"])}
choices = st.builds(
    answered, st.sampled_from([*LABELS, None]), st.sampled_from(LABELS), confidence=confidences, **_places
)
scores = st.builds(
    placed,
    st.booleans(),
    calibrated=st.just(True),
    calibration_correct=st.booleans(),
    confidence=confidences | st.sampled_from([0.0, 1.0]),
    **_places,
)
uncalibrated = st.builds(placed, st.booleans(), calibrated=st.just(False), **_places)
tables = st.lists(choices | scores | uncalibrated, min_size=1, max_size=40)

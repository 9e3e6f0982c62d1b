"""Two tables of choices, and what to judge them by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reconciler.evaluation.judgement import judge
from reconciler.evaluation.parameters import RULES, Inputs, Parameters
from reconciler.evaluation.stored_table import PRECISIONS, store
from reconciler.evaluation.table import Item, QuestionKind
from reconciler.evaluation.verdict import Verdict

INPUTS = Inputs(
    dataset_digest="d" * 64, policy_hash="p" * 16, stable_digest="s" * 64, candidate_digest="c" * 64, scorer_version="1"
)
EXACT = PRECISIONS[0]
LABELS = ("a", "b")


def parameters(**changes: Any) -> Parameters:
    defaults = {"confidence": 0.95, "margin": 0.02, "min_items_per_label": 20, "seed": INPUTS.seed, "resamples": 500}
    return Parameters(**{**defaults, "rules": RULES, **changes})


def choice(line: int, correct: bool, *, expected: str = "a", sure: float = 0.9, **fields: Any) -> Item:
    """A choice between the labels, whose chosen label got the probability `sure`."""
    others = [label for label in LABELS if label != expected]
    predicted = expected if correct else others[0]
    rest = (1 - sure) / (len(LABELS) - 1)
    fields = {
        "question": "q",
        "probabilities": {label: sure if label == predicted else rest for label in LABELS},
        "confidence": sure,
        **fields,
    }
    return Item(
        line=line,
        kind=QuestionKind.CHOICE,
        expected=expected,
        predicted=predicted,
        correct=correct,
        calibration_correct=correct,
        **fields,
    )


def choices(correct: Sequence[bool], **fields: Any) -> list[Item]:
    """One choice a case, of both labels in turn."""
    return [choice(line, right, expected=LABELS[line % 2], **fields) for line, right in enumerate(correct, 1)]


def outcomes(items: int, *, fixes: int, breaks: int, wrong: int = 0) -> tuple[list[bool], list[bool]]:
    """Which items the stable and the candidate answer correctly."""
    both = items - fixes - breaks - wrong
    return [True] * (breaks + both) + [False] * (fixes + wrong), [False] * breaks + [True] * (both + fixes) + [
        False
    ] * wrong


def judged(stable: Sequence[Item], candidate: Sequence[Item], **changes: Any) -> Verdict:
    return judge(store(stable, EXACT), store(candidate, EXACT), parameters(**changes), EXACT)

"""The table that every score and statistic is computed from: one row for each question that was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class QuestionKind(StrEnum):
    """How a question is answered (spec section 7.1)."""

    CHOICE = "choice"
    """One of several labels."""
    NOUL = "noul"
    """A probability that a statement holds."""
    SCORE = "score"
    """A place on an ordered scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question of one case as one revision answered it; never the text that was asked about.

    `line` is the case's line in the data set, from 1. `expected` and `predicted` are texts: a label, `true` or `false`,
    or a number. `confidence` is in [0, 1], `seconds` is the latency of the call that answered the case.
    """

    line: int
    question: str
    kind: QuestionKind
    expected: str
    predicted: str | None
    """None when the answer is missing or unusable: failed, and wrong."""
    correct: bool
    confidence: float = 0.0
    calibrated: bool = True
    """Whether it counts towards calibration."""
    calibration_correct: bool = False
    """What calibration takes for correct: for a score the most probable place, whatever the tolerance."""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    """By label, as the runtime gave them; empty where it gave none."""
    seconds: float = 0.0

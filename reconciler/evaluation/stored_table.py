"""The table as evidence keeps it: rows of whole numbers, so that every sum is exact and a verdict can be recomputed.

Floating-point sums depend on their order and on the processor's vector width; sums of whole numbers do not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec

from reconciler.evaluation.canonical import Strict, Text
from reconciler.evaluation.table import Item, QuestionKind

MILLION: Final = 1_000_000
NO_PROBABILITY: Final = -1
"""Stands for a number that is no probability: not finite, negative or above 1."""
SUM_TOLERANCE: Final = 10_000
"""How far, in millionths, probabilities may add up to something else than 1 (spec section 7.3)."""
_ROUNDED_BY: Final = 50
"""How far, in millionths, a probability is off that the runtime has rounded to four digits."""

Millionths = Annotated[int, msgspec.Meta(ge=NO_PROBABILITY, le=MILLION)]


class StoredItem(Strict, frozen=True, kw_only=True, omit_defaults=True):
    """An `Item` whose probabilities are in millionths and whose latency is in microseconds."""

    line: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    question: Text
    kind: QuestionKind
    expected: Text
    predicted: Text | None
    correct: bool
    confidence: Millionths = 0
    calibrated: bool = True
    calibration_correct: bool = False
    probabilities: dict[Text, Millionths | None] = msgspec.field(default_factory=dict)
    """By label; None where it was left out to keep the evidence small."""
    micros: Annotated[int, msgspec.Meta(ge=0, le=1 << 42)] = 0

    @property
    def key(self) -> tuple[int, str]:
        """What makes an item the same one in two tables."""
        return self.line, self.question

    @property
    def distribution(self) -> Mapping[str, int | None]:
        """The probabilities by answer, in millionths; empty where the runtime gave none."""
        if self.kind is not QuestionKind.NOUL or self.predicted is None:
            return self.probabilities
        other = "false" if self.predicted == "true" else "true"
        return {self.predicted: self.confidence, other: MILLION - self.confidence}


class Precision(Strict, frozen=True):
    """How exactly probabilities are kept.

    Attributes:
        decimals: Digits after the point, up to 6.
        top: How many of an item's probabilities are kept besides the expected label's; None keeps all.
    """

    decimals: Annotated[int, msgspec.Meta(ge=0, le=6)]
    top: Annotated[int, msgspec.Meta(ge=0)] | None = None


PRECISIONS: Final = (
    Precision(decimals=6),
    Precision(decimals=4),
    Precision(decimals=4, top=5),
    Precision(decimals=3, top=2),
    Precision(decimals=2, top=1),
)
"""From the most exact to the smallest."""

StoredTable = Annotated[tuple[StoredItem, ...], msgspec.Meta(max_length=50_000)]


def store(items: Iterable[Item], precision: Precision) -> tuple[StoredItem, ...]:
    """The rows in the order of the data set, whatever the order they came in."""
    return tuple(sorted((_stored(item, precision) for item in items), key=lambda row: row.key))


def _stored(item: Item, precision: Precision) -> StoredItem:
    return StoredItem(
        line=item.line,
        question=item.question,
        kind=item.kind,
        expected=item.expected,
        predicted=item.predicted,
        correct=item.correct,
        confidence=_millionths(item.confidence, precision.decimals),
        calibrated=item.calibrated,
        calibration_correct=item.calibration_correct,
        probabilities=_kept(item, precision),
        micros=round(item.seconds * MILLION),
    )


def _kept(item: Item, precision: Precision) -> dict[str, int | None]:
    whole = {label: _millionths(given, precision.decimals) for label, given in item.probabilities.items()}
    # What is no distribution is the evidence of just that, so it is kept as it is.
    if (
        precision.top is None
        or NO_PROBABILITY in whole.values()
        or not adds_up(whole, precision, sum_tolerance(len(whole)))
    ):
        return {**whole}
    likeliest = sorted(whole, key=lambda label: (-whole[label], label))[: precision.top]
    kept = {*likeliest, item.expected}
    return {label: given if label in kept else None for label, given in whole.items()}


def sum_tolerance(labels: int) -> int:
    """How far, in millionths, so many rounded probabilities may add up to something else than 1."""
    return max(SUM_TOLERANCE, labels * _ROUNDED_BY)


def adds_up(distribution: Mapping[str, int | None], precision: Precision, tolerance: int) -> bool:
    """Whether the probabilities add up to 1 within a tolerance in millionths, as far as they were kept."""
    total = sum(given for given in distribution.values() if given is not None)
    rounding = len(distribution) * _unit(precision.decimals) // 2
    over, under = total - MILLION, MILLION - total
    if None in distribution.values():
        return over <= tolerance + rounding
    return max(over, under) <= tolerance + rounding


def _millionths(probability: float, decimals: int) -> int:
    if not math.isfinite(probability):
        return NO_PROBABILITY
    unit = _unit(decimals)
    kept = round(probability * MILLION / unit) * unit
    # Judged as kept: a runtime's single precision may be a hair above 1.
    return kept if 0 <= kept <= MILLION else NO_PROBABILITY


def _unit(decimals: int) -> int:
    return int(10 ** (6 - decimals))

"""Whether two tables can be compared at all: validity comes before quality. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from reconciler.evaluation.stored_table import NO_PROBABILITY, Precision, StoredItem, adds_up, sum_tolerance
from reconciler.evaluation.table import QuestionKind
from reconciler.evaluation.verdict import Code

# In the order in which they are looked for.
_TEXTS: Final = {
    Code.NO_ITEMS: "no item was answered by either revision",
    Code.DUPLICATE_ITEMS: "a question of a case is in a table twice",
    Code.ITEMS_DIFFER: "the revisions were not asked the same questions",
    Code.EXPECTATIONS_DIFFER: "the revisions were held to different expectations",
    Code.UNANSWERED_BY_STABLE: "the stable revision left a question without a usable answer",
    Code.UNANSWERED_BY_CANDIDATE: "the candidate left a question without a usable answer",
    Code.INVALID_PROBABILITIES: "probabilities are not finite, not between 0 and 1 or do not add up to 1",
    Code.LABEL_SETS_DIFFER: "the revisions chose from different labels",
    Code.UNKNOWN_LABEL: "the data set expects a label that the revisions cannot give",
}

Pair = tuple[StoredItem, StoredItem]


def explain(code: Code, pair: Pair | None) -> str:
    """What is wrong, and with which item, for people."""
    if pair is None:
        return _TEXTS[code]
    return f"{_TEXTS[code]} (line {pair[0].line}, question {pair[0].question})"


def find_invalidity(
    stable: Sequence[StoredItem],
    candidate: Sequence[StoredItem],
    precision: Precision,
    tolerance: Callable[[int], int] = sum_tolerance,
) -> tuple[Code, Pair | None] | None:
    """The first thing that makes the tables incomparable, with the first item it is about; None if they are fine.

    Args:
        stable: The stable's rows.
        candidate: The candidate's.
        precision: How exactly their probabilities were kept.
        tolerance: How far, in millionths, the probabilities of so many labels may add up to something else than 1.
    """
    if not stable and not candidate:
        return Code.NO_ITEMS, None
    for table in (stable, candidate):
        doubled = next((key for key, times in Counter(row.key for row in table).items() if times > 1), None)
        if doubled:
            row = next(row for row in table if row.key == doubled)
            return Code.DUPLICATE_ITEMS, (row, row)
    if [row.key for row in stable] != [row.key for row in candidate]:
        return Code.ITEMS_DIFFER, None
    pairs = list(zip(stable, candidate, strict=True))
    found = ((_flaw(*pair, precision, tolerance), pair) for pair in pairs)
    flaws = [(flaw, pair) for flaw, pair in found if flaw is not None]
    order = list(_TEXTS)
    return min(flaws, key=lambda found: order.index(found[0]), default=None)


def _flaw(
    stable: StoredItem, candidate: StoredItem, precision: Precision, tolerance: Callable[[int], int]
) -> Code | None:
    """The first flaw of one pair; each check may rely on those before it."""
    checks: tuple[tuple[Code, Callable[[], bool]], ...] = (
        (
            Code.EXPECTATIONS_DIFFER,
            lambda: (stable.kind, stable.expected) == (candidate.kind, candidate.expected),
        ),
        (Code.UNANSWERED_BY_STABLE, lambda: stable.predicted is not None),
        (Code.UNANSWERED_BY_CANDIDATE, lambda: candidate.predicted is not None),
        (Code.INVALID_PROBABILITIES, lambda: all(_is_whole(row, precision, tolerance) for row in (stable, candidate))),
        (Code.LABEL_SETS_DIFFER, lambda: stable.distribution.keys() == candidate.distribution.keys()),
        (Code.UNKNOWN_LABEL, lambda: not _labels_known(stable) or stable.expected in stable.distribution),
    )
    return next((code for code, holds in checks if not holds()), None)


def _is_whole(row: StoredItem, precision: Precision, tolerance: Callable[[int], int]) -> bool:
    if row.confidence == NO_PROBABILITY or NO_PROBABILITY in row.distribution.values():
        return False
    return not row.distribution or adds_up(row.distribution, precision, tolerance(len(row.distribution)))


def _labels_known(row: StoredItem) -> bool:
    # A score may be expected between or beyond the levels that a runtime gives probabilities for.
    return bool(row.distribution) and row.kind is not QuestionKind.SCORE

"""Whether one label was sacrificed for the others. Pure.

Imports scipy, so only the worker process that judges a run may import it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.evaluation.mcnemar import drop_p_value
from reconciler.evaluation.table import QuestionKind
from reconciler.evaluation.validity import Pair


@dataclass(frozen=True, slots=True)
class LabelChange:
    """How the answers changed where one label of one question is right."""

    question: str
    label: str
    items: int
    fixes: int
    breaks: int

    @property
    def difference(self) -> float | None:
        """The candidate's recall minus the stable's; None without any item."""
        return (self.fixes - self.breaks) / self.items if self.items else None

    @property
    def p_value(self) -> float:
        """Of no fall, by McNemar's exact test."""
        return drop_p_value(self.fixes, self.breaks)


def label_changes(pairs: Sequence[Pair]) -> tuple[LabelChange, ...]:
    """The change for every label of every question, those that no item expects among them.

    Only choices and statements have labels; a score's levels are no classes to sacrifice (spec section 7.3).
    """
    classified = [pair for pair in pairs if pair[0].kind is not QuestionKind.SCORE]
    expecting: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for stable, candidate in classified:
        expecting[stable.question, stable.expected].append((stable, candidate))
    labels = {(stable.question, label) for stable, _ in classified for label in (*stable.distribution, stable.expected)}
    return tuple(_change(question, label, expecting[question, label]) for question, label in sorted(labels))


def _change(question: str, label: str, pairs: Sequence[Pair]) -> LabelChange:
    return LabelChange(
        question=question,
        label=label,
        items=len(pairs),
        fixes=sum(candidate.correct and not stable.correct for stable, candidate in pairs),
        breaks=sum(stable.correct and not candidate.correct for stable, candidate in pairs),
    )

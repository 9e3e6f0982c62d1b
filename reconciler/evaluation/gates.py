"""Whether scores pass the gates of a policy (spec section 7.4). Pure.

A figure exactly at its threshold passes. Thresholds are decimals and accuracies ratios of integers, so both are
compared as exact fractions. The other figures are means of floats, whose last digits are rounding: there a billionth is
given, far more than rounding takes and far less than anybody can see in four decimals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from api.status import EvaluationResult
from reconciler.evaluation.policy import Policy
from reconciler.evaluation.scores import Scores

_ROUNDING: Final = Fraction(1, 10**9)

Figure = Fraction | float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the gates are passed, and the first that is not."""

    result: EvaluationResult
    reason: str = ""

    @property
    def is_passed(self) -> bool:
        """Whether every gate is passed."""
        return self.result is EvaluationResult.PASSED


def judge(policy: Policy, candidate: Scores, baseline: Scores | None) -> Verdict:
    """Judge a candidate by the first gate that it violates.

    Args:
        policy: The gates.
        candidate: The candidate's scores.
        baseline: The serving revision's scores on the same data set; None where there is nothing to compare with, which
            passes every relative gate.
    """
    violation = next(_violations(policy, candidate, baseline), None)
    if violation is None:
        return Verdict(EvaluationResult.PASSED)
    return Verdict(EvaluationResult.FAILED, violation)


def show(figure: Figure | None) -> str:
    """A figure with four decimals; empty for one that does not exist."""
    return "" if figure is None else f"{float(figure):.4f}"


def _violations(policy: Policy, candidate: Scores, baseline: Scores | None) -> Iterator[str]:
    """Reasons of all violated gates, in the specified order."""
    yield from _too_low("accuracy", candidate.accuracy, "minAccuracy", policy.min_accuracy)
    if baseline is not None:
        yield from _fallen(
            "accuracy", baseline.accuracy, candidate.accuracy, "maxAccuracyDrop", policy.max_accuracy_drop
        )
    yield from _calibration_violations(policy, candidate, baseline)
    yield from _classification_violations(policy, candidate, baseline)


def _calibration_violations(policy: Policy, candidate: Scores, baseline: Scores | None) -> Iterator[str]:
    ceiling = policy.max_ece
    increase = policy.max_ece_increase if baseline is not None else None
    before = baseline.ece if baseline is not None else None
    reason = "CalibrationUnavailable: no answer has the probabilities that {} needs"
    yield from _unavailable(reason, "maxECE", ceiling, candidate.ece)
    yield from _unavailable(reason, "maxECEIncrease", increase, candidate.ece, before)
    yield from _too_high("ECE", candidate.ece, "maxECE", ceiling)
    yield from _risen("ECE", before, candidate.ece, "maxECEIncrease", increase)


def _classification_violations(policy: Policy, candidate: Scores, baseline: Scores | None) -> Iterator[str]:
    floor = policy.min_macro_f1
    drop = policy.max_macro_f1_drop if baseline is not None else None
    before = baseline.macro_f1 if baseline is not None else None
    reason = "ClassificationUnavailable: no question is of a type that {} needs"
    yield from _unavailable(reason, "minMacroF1", floor, candidate.macro_f1)
    yield from _unavailable(reason, "maxMacroF1Drop", drop, candidate.macro_f1, before)
    yield from _too_low("macro-F1", candidate.macro_f1, "minMacroF1", floor)
    yield from _fallen("macro-F1", before, candidate.macro_f1, "maxMacroF1Drop", drop)


def _unavailable(reason: str, gate: str, threshold: str | None, *figures: Figure | None) -> Iterator[str]:
    if threshold is not None and None in figures:
        yield reason.format(gate)


def _too_low(name: str, figure: Figure | None, gate: str, threshold: str | None) -> Iterator[str]:
    if threshold is not None and figure is not None and _is_beyond(Fraction(threshold), figure):
        yield f"{name} {show(figure)} is below {gate} {threshold}"


def _too_high(name: str, figure: Figure | None, gate: str, threshold: str | None) -> Iterator[str]:
    if threshold is not None and figure is not None and _is_beyond(figure, Fraction(threshold)):
        yield f"{name} {show(figure)} is above {gate} {threshold}"


def _fallen(name: str, before: Figure | None, after: Figure | None, gate: str, threshold: str | None) -> Iterator[str]:
    if threshold is None or before is None or after is None or not _is_beyond(before - after, Fraction(threshold)):
        return
    yield f"{name} {show(after)} is further below the serving revision's {show(before)} than {gate} {threshold}"


def _risen(name: str, before: Figure | None, after: Figure | None, gate: str, threshold: str | None) -> Iterator[str]:
    if threshold is None or before is None or after is None or not _is_beyond(after - before, Fraction(threshold)):
        return
    yield f"{name} {show(after)} is further above the serving revision's {show(before)} than {gate} {threshold}"


def _is_beyond(figure: Figure, limit: Figure) -> bool:
    is_exact = isinstance(figure, Fraction) and isinstance(limit, Fraction)
    return Fraction(figure) - Fraction(limit) > (0 if is_exact else _ROUNDING)

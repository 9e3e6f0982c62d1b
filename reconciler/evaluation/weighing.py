"""From measurements to a decision, and the sentence that explains it. Pure, and without numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.evaluation.alarms import disagreements_to_prove
from reconciler.evaluation.paired_accuracy import PairedCounts, items_to_decide
from reconciler.evaluation.parameters import Parameters
from reconciler.evaluation.verdict import (
    Accuracy,
    Code,
    Comparison,
    Decision,
    LabelOutcome,
    LabelRecall,
    Need,
    ScoreChange,
)


@dataclass(frozen=True, slots=True)
class Weighed:
    """A decision with its reason; the fields are those of `Verdict`."""

    decision: Decision
    code: Code
    text: str
    needs: tuple[Need, ...] = ()


def weigh(comparison: Comparison, parameters: Parameters) -> Weighed:
    """What is proven to be worse rejects, what is proven to be no worse promotes, everything else is undecided."""
    accuracy = comparison.accuracy
    if accuracy.upper < -parameters.margin:
        return Weighed(Decision.REJECT, Code.INFERIOR, f"accuracy fell beyond the margin: {_measured(accuracy)}")
    alarm = _alarm(comparison, parameters)
    if alarm is not None:
        return alarm
    scarce = _scarce(comparison, parameters)
    if accuracy.lower <= -parameters.margin:
        return _too_few_items(accuracy, scarce, parameters)
    unheard = _unheard(comparison, parameters)
    if unheard is not None:
        return unheard
    if scarce:
        return Weighed(Decision.UNDECIDED, Code.TOO_FEW_ITEMS_OF_LABEL, _wanted(scarce), scarce)
    return Weighed(Decision.PROMOTE, Code.NON_INFERIOR, f"accuracy is within the margin: {_measured(accuracy)}")


def _alarm(comparison: Comparison, parameters: Parameters) -> Weighed | None:
    """The first guardrail that is violated: harm that is proven, and more than the margin forgives."""
    fallen = next((label for label in comparison.labels if label.outcome is LabelOutcome.FELL), None)
    if fallen is not None:
        text = f"recall of {_named(fallen)} fell: {fallen.breaks} broken, {fallen.fixes} fixed of {fallen.items}"
        return Weighed(Decision.REJECT, Code.LABEL_RECALL_FELL, text)
    for score, code, text in _scores(comparison):
        if _risen(score, parameters):
            return Weighed(Decision.REJECT, code, f"{text}: {_change(score)}")
    return None


def _unheard(comparison: Comparison, parameters: Parameters) -> Weighed | None:
    """The first harm beyond the margin that no alarm could have proven, however great it is."""
    for score, _, text in _scores(comparison):
        if score.blind is True and score.difference > score.tolerated:
            why = (
                f"{_alarms(comparison)} alarms at a confidence of {parameters.confidence:g} cannot fire on "
                f"{comparison.accuracy.items} items and {parameters.resamples} resamples; "
                "lower the confidence, or use fewer labels or more items"
            )
            return Weighed(Decision.UNDECIDED, Code.ALARM_CANNOT_FIRE, f"{text}: {_change(score)}, but {why}")
    return None


def _scores(comparison: Comparison) -> Iterator[tuple[ScoreChange, Code, str]]:
    if comparison.log_loss is not None:
        yield comparison.log_loss, Code.LOG_LOSS_ROSE, "log-loss rose"
    if comparison.brier is not None:
        yield comparison.brier, Code.BRIER_ROSE, "the Brier score rose"


def _alarms(comparison: Comparison) -> int:
    labels = sum(label.p_value is not None for label in comparison.labels)
    return labels + sum(1 for _ in _scores(comparison))


def _risen(score: ScoreChange, parameters: Parameters) -> bool:
    return score.p_value <= 1 - parameters.confidence and score.difference > score.tolerated


def _too_few_items(accuracy: Accuracy, needs: tuple[Need, ...], parameters: Parameters) -> Weighed:
    counts = PairedCounts(accuracy.items, accuracy.fixes, accuracy.breaks).shrunk(accuracy.design_effect)
    enough = items_to_decide(counts, parameters.margin, parameters.confidence)
    if enough is None:
        text = f"the change is too close to the margin for any number of items: {_measured(accuracy)}"
        return Weighed(Decision.UNDECIDED, Code.TOO_FEW_ITEMS, text, needs)
    # At least one: the interval's end is the verdict's, whatever the estimate is rounded to.
    more = max(1, round(enough * accuracy.design_effect) - accuracy.items)
    needs = (Need(items=more), *needs)
    return Weighed(Decision.UNDECIDED, Code.TOO_FEW_ITEMS, f"{_wanted(needs)}: {_measured(accuracy)}", needs)


def _scarce(comparison: Comparison, parameters: Parameters) -> tuple[Need, ...]:
    fewest = parameters.min_items_per_label
    if parameters.follows_newest_rules:
        fewest = max(fewest, disagreements_to_prove(max(1, _alarms(comparison)), parameters.confidence))
    return tuple(
        Need(items=fewest - label.items, question=label.question, label=label.label)
        for label in comparison.labels
        if label.outcome is LabelOutcome.INSUFFICIENT
    )


_NAMED_NEEDS = 3


def _wanted(needs: tuple[Need, ...]) -> str:
    named = ", ".join(_need(need) for need in needs[:_NAMED_NEEDS])
    rest = len(needs) - _NAMED_NEEDS
    return f"would decide: {named}" + (f" and items of {rest} more labels" if rest > 0 else "")


def _need(need: Need) -> str:
    items = f"{need.items} more item{'s' if need.items > 1 else ''}"
    return items if need.label is None else f"{items} of {need.label} ({need.question})"


def _named(label: LabelRecall) -> str:
    return f"{label.label} ({label.question})"


def _measured(accuracy: Accuracy) -> str:
    return (
        f"{_points(accuracy.difference)} points ({_points(accuracy.lower)} to {_points(accuracy.upper)}) "
        f"on {accuracy.items} items, {accuracy.fixes} fixed and {accuracy.breaks} broken"
    )


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"


def _change(score: ScoreChange) -> str:
    return f"{score.stable:.3f} to {score.candidate:.3f}, {score.tolerated:.3f} more is forgiven"

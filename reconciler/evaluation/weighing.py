"""From measurements to a decision, and the sentence that explains it. Pure, and without numpy."""

from __future__ import annotations

from dataclasses import dataclass

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
    if accuracy.lower <= -parameters.margin:
        return _too_few_items(accuracy, comparison.labels, parameters)
    scarce = _scarce(comparison.labels, parameters)
    if scarce:
        return Weighed(Decision.UNDECIDED, Code.TOO_FEW_ITEMS_OF_LABEL, _wanted(scarce), scarce)
    return Weighed(Decision.PROMOTE, Code.NON_INFERIOR, f"accuracy is within the margin: {_measured(accuracy)}")


def _alarm(comparison: Comparison, parameters: Parameters) -> Weighed | None:
    """The first guardrail that is violated: harm that is proven, and more than the margin forgives."""
    fallen = next((label for label in comparison.labels if label.outcome is LabelOutcome.FELL), None)
    if fallen is not None:
        text = f"recall of {_named(fallen)} fell: {fallen.breaks} broken, {fallen.fixes} fixed of {fallen.items}"
        return Weighed(Decision.REJECT, Code.LABEL_RECALL_FELL, text)
    scores = (
        (comparison.log_loss, Code.LOG_LOSS_ROSE, "log-loss rose"),
        (comparison.brier, Code.BRIER_ROSE, "the Brier score rose"),
    )
    for score, code, text in scores:
        if score is not None and _risen(score, parameters):
            return Weighed(Decision.REJECT, code, f"{text}: {_change(score)}")
    return None


def _risen(score: ScoreChange, parameters: Parameters) -> bool:
    return score.p_value <= 1 - parameters.confidence and score.difference > score.tolerated


def _too_few_items(accuracy: Accuracy, labels: tuple[LabelRecall, ...], parameters: Parameters) -> Weighed:
    counts = PairedCounts(accuracy.items, accuracy.fixes, accuracy.breaks).shrunk(accuracy.design_effect)
    enough = items_to_decide(counts, parameters.margin, parameters.confidence)
    needs = _scarce(labels, parameters)
    if enough is None:
        text = f"the change is too close to the margin for any number of items: {_measured(accuracy)}"
        return Weighed(Decision.UNDECIDED, Code.TOO_FEW_ITEMS, text, needs)
    # At least one: the interval's end is the verdict's, whatever the estimate is rounded to.
    more = max(1, round(enough * accuracy.design_effect) - accuracy.items)
    needs = (Need(items=more), *needs)
    return Weighed(Decision.UNDECIDED, Code.TOO_FEW_ITEMS, f"{_wanted(needs)}: {_measured(accuracy)}", needs)


def _scarce(labels: tuple[LabelRecall, ...], parameters: Parameters) -> tuple[Need, ...]:
    return tuple(
        Need(items=parameters.min_items_per_label - label.items, question=label.question, label=label.label)
        for label in labels
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

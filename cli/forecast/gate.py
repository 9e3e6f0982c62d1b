"""What stands between a candidate and its promotion, and how much of it the data set can tell. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from api.rollout import Evaluation, Promotion, Strategy
from cli.forecast.situation import Situation
from cli.gate.suppositions import DISCORDANCE
from reconciler.evaluation.dataset import Dataset
from reconciler.evaluation.planner import Aim, Detectable, detectable
from reconciler.evaluation.policy import Policy
from reconciler.evaluation.table import QuestionKind
from reconciler.rollout import Refusal

_THRESHOLDS: Final = (
    "min_accuracy",
    "max_accuracy_drop",
    "min_macro_f1",
    "max_macro_f1_drop",
    "max_ece",
    "max_ece_increase",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The way to a promotion.

    Attributes:
        promotion: The policy that applies.
        thresholds: Those that are set, by their name in the spec.
        dataset: `cm/<name>/<key>` or `secret/<name>/<key>`; empty without an evaluation.
        items: Answers that are scored; None when the data set is not known.
        power: What the comparison of both revisions can tell; None when there is none, or nothing to tell it from.
        warnings: Why the gate may not do what it is there for.
    """

    promotion: Promotion
    thresholds: Mapping[str, str] = field(default_factory=dict)
    dataset: str = ""
    items: int | None = None
    power: Detectable | None = None
    warnings: tuple[str, ...] = ()


def gate(situation: Situation) -> Gate:
    """Return the gate of the next candidate."""
    rollout = situation.manifest.spec.rollout
    evaluation = rollout.evaluation
    if evaluation is None:
        return Gate(promotion=rollout.effective_promotion)
    dataset = situation.dataset if isinstance(situation.dataset, Dataset) else None
    labels = _labels(dataset) if dataset is not None else Counter()
    items = sum(len(case.expected) for case in dataset.cases) if dataset is not None else None
    power = _power(evaluation, items, labels)
    return Gate(
        promotion=rollout.effective_promotion,
        thresholds=_thresholds(evaluation),
        dataset=Policy.of(evaluation).dataset,
        items=items,
        power=power,
        warnings=(*_warnings(situation, evaluation, items, power), *_deaf(evaluation, power, labels)),
    )


def _thresholds(evaluation: Evaluation) -> dict[str, str]:
    declared = evaluation.dump()
    aliases = {name: type(evaluation).model_fields[name].alias or name for name in _THRESHOLDS}
    return {alias: str(declared[alias]) for alias in aliases.values() if alias in declared}


def _labels(dataset: Dataset) -> Counter[str]:
    """Count how many items expect each label of each question; the levels of a score are no labels."""
    answers = (answer for case in dataset.cases for answer in case.expected)
    return Counter(
        f"{answer.question}={_text(answer.value)}" for answer in answers if answer.kind is not QuestionKind.SCORE
    )


def _text(value: str | bool | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _power(evaluation: Evaluation, items: int | None, labels: Mapping[str, int]) -> Detectable | None:
    statistics = evaluation.statistics
    if statistics is None or not items:
        return None
    aim = Aim(
        margin=float(statistics.non_inferiority_margin),
        discordance=DISCORDANCE,
        confidence=float(statistics.confidence),
    )
    return detectable(aim, items, labels, min_items_per_label=statistics.min_items_per_label)


def _warnings(
    situation: Situation, evaluation: Evaluation, items: int | None, power: Detectable | None
) -> Iterator[str]:
    if isinstance(situation.dataset, Refusal):
        yield f"{situation.dataset.reason}: {situation.dataset.message}: a candidate would be held, then rejected"
    elif items is None:
        yield "the data set was not read, so nothing is said about what it can tell"
    yield from _blind(evaluation, items)
    yield from _skipped(situation, evaluation)
    if power is not None:
        yield from _weak(power)


def _blind(evaluation: Evaluation, items: int | None) -> Iterator[str]:
    """Yield thresholds that cannot turn anything away, or that chance decides."""
    if float(evaluation.min_accuracy) == 0 and not Policy.of(evaluation).is_relative and evaluation.statistics is None:
        yield "cannot fire: minAccuracy 0 turns nothing away, and no other gate compares"
    drop = evaluation.max_accuracy_drop
    if drop is not None and items and evaluation.statistics is None and float(drop) * items < 1:
        yield (
            f"maxAccuracyDrop {drop} of {items} items is less than one item: about half of all equally good"
            " candidates are turned away; statistics would tell chance from harm"
        )


def _skipped(situation: Situation, evaluation: Evaluation) -> Iterator[str]:
    """Yield why gates that compare would have nothing to compare with."""
    if not Policy.of(evaluation).is_relative and evaluation.statistics is None:
        return
    if situation.model.status.stable_revision is None:
        yield "gates that compare are skipped: nothing serves yet to compare with"
    elif situation.manifest.spec.rollout.effective_strategy is Strategy.RECREATE:
        yield "gates that compare are skipped: strategy Recreate stops the serving revision"


def _weak(power: Detectable) -> Iterator[str]:
    if power.drop is None:
        yield "cannot fire: with so few items no drop of accuracy would be noticed reliably"
    if power.blind:
        yield f"cannot fire: {power.blind}"
    if power.promotes < 0.5:
        yield (
            f"hardly ever promotes: an equally good candidate passes in {power.promotes:.0%} of all runs;"
            " `dmctl gate plan` says how many items it needs"
        )


def _deaf(evaluation: Evaluation, power: Detectable | None, labels: Mapping[str, int]) -> Iterator[str]:
    """Yield labels that are too rare for a promotion, and those whose loss could never be proven."""
    if power is None or evaluation.statistics is None:
        return
    least = evaluation.statistics.min_items_per_label
    rare = [label for label, drop in power.label_drops.items() if drop is None]
    scarce = [label for label in rare if labels[label] < least]
    if scarce:
        yield f"never promotes: too few items (minItemsPerLabel {least}) of {_first(scarce)}"
    blind = [label for label in rare if labels[label] >= least]
    if blind:
        yield f"cannot fire: too few items for its loss to be proven of {_first(blind)}"


def _first(labels: Sequence[str]) -> str:
    return ", ".join(labels[:3]) + (", …" if len(labels) > 3 else "")

"""How many golden items a gate needs, and what a given number of them can tell. Pure, and fast enough for a preview.

`plan` answers before there is a data set, `detectable` once there is one. Both ask for the share of items about whose
correctness the two revisions will disagree: pairing makes the items' difficulty cancel out, and the less they disagree,
the more each disagreement tells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from reconciler.evaluation.alarms import disagreements_to_prove, is_blind, resamples_for
from reconciler.evaluation.paired_accuracy import PairedCounts, constrained_variance, normal_quantile

_NORMAL: Final = NormalDist()
_HALVINGS: Final = 30
# Numbers of disagreements further from the expected one than this are too rare to matter.
_STANDARD_DEVIATIONS: Final = 8
# Small numbers stray further than their standard deviation says.
_FEW: Final = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """Items that a gate needs.

    Attributes:
        items: Golden items, of one question a case.
        text: The same as a sentence.
    """

    items: int
    text: str


@dataclass(frozen=True, slots=True)
class Detectable:
    """What a data set can tell.

    Attributes:
        promotes: Probability that a candidate as good as the stable is promoted, as far as accuracy goes.
        drop: The smallest drop of accuracy that is noticed with the power asked for; None if none is.
        label_drops: The smallest proven drop of each label's recall, when nothing is fixed; None if too few items.
        blind: Why no rise of log-loss or Brier score could be proven; empty if some could.
        text: The same as a sentence.
    """

    promotes: float
    drop: float | None
    label_drops: Mapping[str, float | None]
    blind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What a gate is meant to achieve.

    Attributes:
        margin: How much worse is still no worse, as a share of the items.
        discordance: Expected share of items that only one of the revisions answers correctly.
        confidence: How sure a verdict must be.
        power: How likely it must be that an equally good candidate is promoted, or that a drop is noticed.

    Raises:
        ValueError: A share is outside (0, 1), or the confidence or power is no more than a coin's.
    """

    margin: float
    discordance: float
    confidence: float = 0.95
    power: float = 0.8

    def __post_init__(self) -> None:
        for name, least in (("margin", 0), ("discordance", 0), ("confidence", 0.5), ("power", 0.5)):
            if not least < getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be above {least} and below 1")


def plan(aim: Aim) -> Plan:
    """Items after which a candidate as good as the stable is promoted with the power aimed at."""
    supposed, true = _deviations(aim)
    reach = normal_quantile(aim.confidence) * supposed + normal_quantile(aim.power) * true
    items = math.ceil((reach / aim.margin) ** 2)
    text = (
        f"{items} items promote an equally good candidate in {aim.power:.0%} of all runs, "
        f"with a margin of {100 * aim.margin:g} points and {aim.discordance:.0%} disagreement"
    )
    return Plan(items, text)


def detectable(aim: Aim, items: int, per_label: Mapping[str, int], *, min_items_per_label: int = 20) -> Detectable:
    """What so many items, of one question a case, can tell.

    Args:
        aim: What the gate is meant to achieve.
        items: Golden items.
        per_label: How many of them expect each label.
        min_items_per_label: The fewest items of a label that count.

    Raises:
        ValueError: There are no items.
    """
    if items < 1:
        raise ValueError("a data set without items can tell nothing")
    supposed, true = _deviations(aim)
    promotes = _NORMAL.cdf((aim.margin * math.sqrt(items) - normal_quantile(aim.confidence) * supposed) / true)
    drop = _smallest_drop(aim, items)
    # As many alarms as Holm's correction may share the level among: each label, log-loss and Brier score.
    least = disagreements_to_prove(len(per_label) + 2, aim.confidence)
    label_drops = {
        label: least / count if count >= max(least, min_items_per_label) else None
        for label, count in sorted(per_label.items())
    }
    blind = blind_scores(aim.confidence, items, len(per_label))
    return Detectable(promotes, drop, label_drops, blind, _sentence(aim, items, promotes, drop, label_drops))


def blind_scores(confidence: float, items: int, labels: int) -> str:
    """Why no rise of log-loss or Brier score could be proven by so many items, of one question a case; empty if some.

    Whatever rises all the same leaves the verdict undecided.
    """
    alarms = labels + 2
    if items > 1 and not is_blind(resamples_for(alarms, confidence, items), alarms, confidence):
        return ""
    return (
        f"with {items} items no rise of log-loss or Brier score can be proven: {alarms} alarms share what a confidence "
        f"of {confidence:g} leaves; a lower confidence or fewer labels would let them fire"
    )


def label_items(confidence: float, labels: int) -> int:
    """The fewest items of a label, among so many, by which the loss of its recall could be proven at all."""
    return disagreements_to_prove(labels + 2, confidence)


def power_to_notice(drop: float, *, items: int, discordance: float, confidence: float = 0.95) -> float:
    """Probability that McNemar's exact one-sided test notices a drop of accuracy.

    Args:
        drop: The true drop, at most the discordance.
        items: Golden items.
        discordance: Expected share of items that only one of the revisions answers correctly.
        confidence: One minus the test's level.
    """
    broken = (discordance + drop) / (2 * discordance)
    middle, deviation = items * discordance, math.sqrt(items * discordance * (1 - discordance))
    last = min(items, math.ceil(middle + _STANDARD_DEVIATIONS * deviation) + _FEW)
    total, critical, by_chance, noticed = 0.0, 0, 1.0, 1.0
    # From n to n + 1 disagreements a tail grows by the probability of having been just below it.
    for disagreements in range(last + 1):
        while by_chance > 1 - confidence:
            by_chance -= _binomial(critical, disagreements, 0.5)
            noticed -= _binomial(critical, disagreements, broken)
            critical += 1
        total += _binomial(disagreements, items, discordance) * noticed
        by_chance += 0.5 * _binomial(critical - 1, disagreements, 0.5)
        noticed += broken * _binomial(critical - 1, disagreements, broken)
    return min(1.0, max(0.0, total))


def _smallest_drop(aim: Aim, items: int) -> float | None:
    def noticed(drop: float) -> bool:
        power = power_to_notice(drop, items=items, discordance=aim.discordance, confidence=aim.confidence)
        return power >= aim.power

    low, high = 0.0, aim.discordance
    if not noticed(high):
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if noticed(middle) else (middle, high)
    return high


def _binomial(count: int, trials: int, probability: float) -> float:
    if not 0 <= count <= trials:
        return 0.0
    if probability >= 1:
        return 1.0 if count == trials else 0.0
    ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
    return math.exp(ways + count * math.log(probability) + (trials - count) * math.log1p(-probability))


def _deviations(aim: Aim) -> tuple[float, float]:
    """Standard deviations of one item's difference: as supposed at the margin, and as it is for equal revisions."""
    equal = PairedCounts(1.0, aim.discordance / 2, aim.discordance / 2)
    return math.sqrt(constrained_variance(equal, -aim.margin)), math.sqrt(aim.discordance)


def _sentence(
    aim: Aim, items: int, promotes: float, drop: float | None, label_drops: Mapping[str, float | None]
) -> str:
    noticed = "no drop is noticed" if drop is None else f"a drop of {100 * drop:.1f} points is noticed"
    blind = [label for label, least in label_drops.items() if least is None]
    scarce = f"; too few items of {', '.join(blind[:3])}{', …' if len(blind) > 3 else ''}" if blind else ""
    return (
        f"{items} items promote an equally good candidate in {promotes:.0%} of all runs, "
        f"and {noticed} in {aim.power:.0%}{scarce}"
    )

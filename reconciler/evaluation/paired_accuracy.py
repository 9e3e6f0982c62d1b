"""Two revisions' accuracies on the same items: what changed, how sure that is, and what would make it surer.

Pure, and without numpy, so that previews can plan with it. `fixes` are items that only the candidate answers
correctly, `breaks` those that only the stable does; all other items say nothing about the difference.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

_NORMAL: Final = NormalDist()
# Halving [-1, 1] this often leaves less than a double can tell apart.
_HALVINGS: Final = 60


@dataclass(frozen=True, slots=True)
class PairedCounts:
    """How often two revisions disagree about an answer's correctness.

    Counts are fractions where dependent items count for less than one.
    """

    items: float
    fixes: float
    breaks: float

    @property
    def difference(self) -> float:
        """The candidate's accuracy minus the stable's."""
        return (self.fixes - self.breaks) / self.items

    def shrunk(self, factor: float) -> PairedCounts:
        """The same rates on `factor` times fewer items."""
        return PairedCounts(self.items / factor, self.fixes / factor, self.breaks / factor)


def normal_quantile(probability: float) -> float:
    """The standard normal distribution's quantile."""
    return _NORMAL.inv_cdf(probability)


def constrained_variance(counts: PairedCounts, difference: float) -> float:
    """Variance of one item's difference, with the likeliest rates under which the true difference is the given one.

    Source: Tango, Statistics in Medicine 17 (1998), 891-908.
    """
    linear = -counts.fixes - counts.breaks + (2 * counts.items - counts.fixes + counts.breaks) * difference
    constant = -counts.breaks * difference * (1 - difference)
    root = math.sqrt(max(0.0, linear * linear - 8 * counts.items * constant))
    break_rate = (root - linear) / (4 * counts.items)
    return max(0.0, 2 * break_rate + difference * (1 - difference))


def score_statistic(counts: PairedCounts, difference: float) -> float:
    """Standard errors between the observed difference and a supposed one; positive when more was observed."""
    distance = counts.fixes - counts.breaks - counts.items * difference
    variance = counts.items * constrained_variance(counts, difference)
    if variance > 0:
        return distance / math.sqrt(variance)
    return math.copysign(math.inf, distance) if distance else 0.0


def score_interval(counts: PairedCounts, confidence: float) -> tuple[float, float]:
    """Tango's score interval: the true difference is above its lower end, and below its upper, each with `confidence`.

    Newcombe's paired interval, the common alternative, holds the stated level less evenly (`tools/bench/gate.py`).
    """
    reach = normal_quantile(confidence)
    lower = _largest_where(lambda supposed: score_statistic(counts, supposed) >= reach, -1.0, counts.difference)
    upper = -_largest_where(lambda supposed: -score_statistic(counts, -supposed) >= reach, -1.0, -counts.difference)
    return lower, upper


def _largest_where(holds: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def design_effect(changes: Iterable[tuple[int, int]]) -> float:
    """How many times more the mean change varies because questions of one case stand and fall together; at least 1.

    Dividing the counts by it makes them those of as many independent items (Rao and Scott, Biometrics 48 (1992),
    577-585).

    Args:
        changes: The case's line, and +1 for a fix, -1 for a break or 0, for each item.
    """
    by_case: dict[int, list[int]] = defaultdict(list)
    for line, change in changes:
        by_case[line].append(change)
    items = sum(map(len, by_case.values()))
    total = sum(map(sum, by_case.values()))
    # Both sums of squares around the mean, times items²: whole numbers.
    alone = sum((items * change - total) ** 2 for case in by_case.values() for change in case)
    together = sum((items * sum(case) - len(case) * total) ** 2 for case in by_case.values())
    return max(1.0, together / alone) if alone else 1.0


def items_to_decide(counts: PairedCounts, margin: float, confidence: float) -> int | None:
    """Items at which the same rates prove the candidate within the margin or beyond it; None if above a million."""
    reached = score_statistic(counts, -margin)
    if reached == 0:
        return None
    needed = counts.items * (normal_quantile(confidence) / reached) ** 2
    return math.ceil(needed) if needed <= 1_000_000 else None

"""Whether the candidate's probabilities became worse: log-loss and Brier score, paired, by bootstrap.

Imports numpy and scipy, so only the worker process that judges a run may import it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap

from reconciler.evaluation.stored_table import MILLION, StoredItem

_NANO: Final = 10**9
# Bounds what a batch of resamples holds in memory, whatever the size of the table.
_BATCH_CELLS: Final = 500_000

Loss = Callable[[Mapping[str, int | None], str], int]
"""An item's loss as a whole number of some unit, from its distribution and the expected label."""


@dataclass(frozen=True, slots=True)
class Change:
    """How much a mean loss rose from the stable to the candidate.

    Attributes:
        stable: The stable's mean loss.
        candidate: The candidate's.
        lower: The rise is above this, with the confidence asked for.
        upper: The rise is below this, likewise.
        p_value: How likely such a rise is by chance if there is none.
        cases: How many cases it was measured on.
    """

    stable: float
    candidate: float
    lower: float
    upper: float
    p_value: float
    cases: int


@dataclass(frozen=True, slots=True)
class ProperScore:
    """A score that is best when the probabilities are true."""

    loss: Loss
    unit: int
    """How many units of `loss` make 1."""

    def change(self, pairs: Sequence[tuple[StoredItem, StoredItem]], resampling: Resampling) -> Change | None:
        """Compare over the items that come with a probability of the expected answer; None if there is none."""
        measured = [pair for pair in pairs if pair[0].expected in pair[0].distribution]
        if not measured:
            return None
        losses = [(self._of(stable), self._of(candidate)) for stable, candidate in measured]
        rises = [candidate - stable for stable, candidate in losses]
        sums, sizes = _sums_by_case([stable.line for stable, _ in measured], rises)
        lower, upper, p_value = resampling.of_mean(sums, sizes)
        scale = len(losses) * self.unit
        return Change(
            stable=sum(stable for stable, _ in losses) / scale,
            candidate=sum(candidate for _, candidate in losses) / scale,
            lower=lower / self.unit,
            upper=upper / self.unit,
            p_value=p_value,
            cases=len(sums),
        )

    def _of(self, row: StoredItem) -> int:
        return self.loss(row.distribution, row.expected)


def _log_loss(distribution: Mapping[str, int | None], expected: str) -> int:
    # Probabilities are kept in millionths, so one of zero may be anything up to that.
    return round(-math.log(max(distribution[expected] or 0, 1) / MILLION) * _NANO)


def _brier(distribution: Mapping[str, int | None], expected: str) -> int:
    kept = {label: given for label, given in distribution.items() if given is not None}
    # What was left out counts as one label. The remainder of a whole distribution is rounding, no label.
    left_out = max(0, MILLION - sum(kept.values())) if len(kept) < len(distribution) else 0
    return left_out**2 + sum((given - MILLION * (label == expected)) ** 2 for label, given in kept.items())


LOG_LOSS: Final = ProperScore(_log_loss, _NANO)
"""In nats: minus the logarithm of the probability given to the expected label."""
BRIER: Final = ProperScore(_brier, 2 * MILLION**2)
"""Half the squared distance from certainty about the expected label: 0 to 1, the share of errors if always certain."""


def _sums_by_case(lines: Sequence[int], rises: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sum of the rises and number of items of each case, whose questions are resampled together."""
    position = {line: index for index, line in enumerate(dict.fromkeys(lines))}
    sums, sizes = np.zeros(len(position), np.int64), np.zeros(len(position), np.int64)
    for line, rise in zip(lines, rises, strict=True):
        sums[position[line]] += rise
        sizes[position[line]] += 1
    return sums, sizes


@dataclass(frozen=True, slots=True)
class Resampling:
    """A paired bootstrap with bias correction and acceleration (Efron, JASA 82 (1987), 171-185), made repeatable."""

    resamples: int
    confidence: float
    """Of each end of the interval."""
    seed: int

    def of_mean(self, sums: NDArray[np.int64], sizes: NDArray[np.int64]) -> tuple[float, float, float]:
        """Interval of sum/size, and how likely its rise above zero is by chance."""
        total, count = int(sums.sum()), int(sizes.sum())
        if all(rise * count == size * total for rise, size in zip(sums.tolist(), sizes.tolist(), strict=True)):
            mean = total / count
            return mean, mean, 1 / (self.resamples + 1) if mean > 0 and len(sums) > 1 else 1.0
        outcome = bootstrap(
            (sums, sizes),
            _ratio,
            paired=True,
            vectorized=True,
            n_resamples=self.resamples,
            batch=max(1, _BATCH_CELLS // len(sums)),
            confidence_level=2 * self.confidence - 1,
            method="BCa",
            rng=np.random.default_rng(self.seed),
        )
        not_risen = int(np.count_nonzero(outcome.bootstrap_distribution <= 0))
        # Where all resamples are alike, interpolating between them may put the ends in the wrong order by a rounding.
        lower, upper = sorted(map(float, outcome.confidence_interval))
        return lower, upper, (not_risen + 1) / (self.resamples + 1)


def _ratio(sums: NDArray[np.int64], sizes: NDArray[np.int64], axis: int) -> Any:
    return sums.sum(axis=axis) / sizes.sum(axis=axis)

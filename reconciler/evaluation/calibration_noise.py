"""The calibration error beside what a perfectly calibrated model would show on as many items.

Imports numpy, so only the worker process that judges a run may import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reconciler.evaluation.stored_table import MILLION, StoredItem

_BINS: Final = 10
_RUNS: Final = 500
# Bounds what a batch of runs holds in memory.
_BATCH_CELLS: Final = 500_000


def calibration_error(confidences: NDArray[np.int64], correct: NDArray[np.bool_]) -> float:
    """Expected calibration error over ten bins of equal width (spec section 7.3); confidences in millionths."""
    return float(_errors(confidences, correct[np.newaxis, :])[0])


def noise_floor(confidences: NDArray[np.int64], seed: int) -> tuple[float, float]:
    """Median and 95th percentile of the error if every confidence were exactly the probability of being correct."""
    random = np.random.default_rng(seed)
    batch = max(1, _BATCH_CELLS // len(confidences))
    errors = [
        _errors(confidences, random.integers(0, MILLION, (min(batch, _RUNS - done), len(confidences))) < confidences)
        for done in range(0, _RUNS, batch)
    ]
    median, high = np.quantile(np.concatenate(errors), [0.5, 0.95])
    return float(median), float(high)


def calibrated(table: Sequence[StoredItem]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Confidences and correctness of the rows that count towards calibration."""
    rows = [row for row in table if row.calibrated]
    confidences = np.array([row.confidence for row in rows], np.int64)
    return confidences, np.array([row.calibration_correct for row in rows], np.bool_)


def _errors(confidences: NDArray[np.int64], correct: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The error of each run; `correct` is runs by items."""
    bins = np.minimum(confidences * _BINS // MILLION, _BINS - 1)
    total = np.zeros(len(correct), np.int64)
    for each in np.unique(bins):
        inside = bins == each
        surplus = MILLION * np.count_nonzero(correct[:, inside], axis=1) - confidences[inside].sum()
        total += np.abs(surplus)
    return total / (MILLION * len(confidences))

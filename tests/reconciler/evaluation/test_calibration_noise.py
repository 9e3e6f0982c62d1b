"""The calibration error agrees with MAPIE and with the plain score, and its noise floor with known figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mapie.metrics.calibration import expected_calibration_error

from reconciler.evaluation.calibration_noise import calibrated, calibration_error, noise_floor
from reconciler.evaluation.scores import compute_scores
from reconciler.evaluation.stored_table import store
from tests.reconciler.evaluation.paired_tables import EXACT, choice

rows = st.lists(st.tuples(st.booleans(), st.integers(0, 10_000)), min_size=1, max_size=60)


@settings(max_examples=40, deadline=None)
@given(rows)
@example([(True, 10_000), (False, 9_500)])
def test_the_error_is_that_of_mapie_and_of_the_plain_score(answers: list[tuple[bool, int]]) -> None:
    items = [choice(line, correct, sure=sure / 10_000) for line, (correct, sure) in enumerate(answers, 1)]
    error = calibration_error(*calibrated(store(items, EXACT)))

    assert error == pytest.approx(compute_scores(items).ece, abs=1e-9)
    confidences = np.array([sure / 10_000 for _, sure in answers])
    # MAPIE's bins include their upper bound, ours their lower, so bounds are moved off; it counts bounds, not bins.
    on_bound = np.array([sure % 1000 == 0 and sure < 10_000 for _, sure in answers])
    inside = np.where(on_bound, confidences + 1e-7, confidences)
    oracle = expected_calibration_error(np.array([c for c, _ in answers], int), inside, num_bins=11)
    assert error == pytest.approx(oracle, abs=2e-7)


@pytest.mark.parametrize(
    ("items", "median", "high"), [(100, 0.068, 0.108), (200, 0.049, 0.079), (1000, 0.023, 0.036), (5000, 0.010, 0.016)]
)
def test_the_noise_floor_of_a_perfect_classifier(items: int, median: float, high: float) -> None:
    """The published figures for confidences drawn from Beta(8, 2) (spec section 4.2 of the peers)."""
    drawn = np.random.default_rng(1).beta(8, 2, (8, items))
    floors = [noise_floor(table, seed=2) for table in np.round(drawn * 1_000_000).astype(np.int64)]

    half, few = np.mean(floors, axis=0)
    assert half == pytest.approx(median, abs=0.003)
    assert few == pytest.approx(high, abs=0.005)


def test_who_is_always_certain_and_right_has_no_noise() -> None:
    assert noise_floor(np.full(50, 1_000_000), seed=1) == (0, 0)


def test_the_noise_floor_follows_from_the_seed() -> None:
    confidences = np.arange(500_000, 1_000_000, 5000)

    assert noise_floor(confidences, seed=1) == noise_floor(confidences, seed=1)
    assert noise_floor(confidences, seed=1) != noise_floor(confidences, seed=2)

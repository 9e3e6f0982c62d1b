"""The paired comparison of accuracies agrees with statsmodels and its own definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from statsmodels.stats.contingency_tables import mcnemar as mcnemar_oracle

from reconciler.evaluation.paired_accuracy import (
    PairedCounts,
    constrained_variance,
    design_effect,
    items_to_decide,
    normal_quantile,
    score_interval,
    score_statistic,
)

disagreements = st.integers(0, 300)


@st.composite
def paired_counts(draw: st.DrawFn) -> PairedCounts:
    fixes, breaks = draw(disagreements), draw(disagreements)
    return PairedCounts(fixes + breaks + draw(st.integers(1, 2000)), fixes, breaks)


@given(paired_counts())
def test_without_a_supposed_difference_the_score_is_mcnemars(counts: PairedCounts) -> None:
    assume(counts.fixes + counts.breaks)
    oracle = mcnemar_oracle([[0, counts.breaks], [counts.fixes, 0]], exact=False, correction=False)

    assert score_statistic(counts, 0.0) ** 2 == pytest.approx(oracle.statistic, abs=1e-9, rel=1e-9)


@given(paired_counts(), st.floats(-0.5, 0.5))
def test_the_variance_is_that_of_the_likeliest_rates(counts: PairedCounts, difference: float) -> None:
    """Against a numerical search for the rate of breaks that makes the counts likeliest."""
    low, high = max(0.0, -difference), (1 - difference) / 2

    def unlikeliness(breaks: float) -> float:
        rates = (breaks + difference, breaks, 1 - 2 * breaks - difference)
        seen = (counts.fixes, counts.breaks, counts.items - counts.fixes - counts.breaks)
        return -sum(times * math.log(max(rate, 1e-300)) for rate, times in zip(rates, seen, strict=True) if times)

    found = minimize_scalar(unlikeliness, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x

    assert constrained_variance(counts, difference) == pytest.approx(2 * found + difference - difference**2, abs=1e-5)


@given(paired_counts(), st.floats(0.6, 0.999))
def test_the_interval_ends_where_the_score_reaches_the_quantile(counts: PairedCounts, confidence: float) -> None:
    lower, upper = score_interval(counts, confidence)
    reach = normal_quantile(confidence)

    assert -1 <= lower <= counts.difference <= upper <= 1
    assert score_statistic(counts, lower) == pytest.approx(reach, abs=1e-6)
    assert score_statistic(counts, upper) == pytest.approx(-reach, abs=1e-6)


@given(paired_counts(), st.floats(0.6, 0.999))
def test_swapping_the_revisions_mirrors_the_interval(counts: PairedCounts, confidence: float) -> None:
    lower, upper = score_interval(counts, confidence)
    mirrored = score_interval(PairedCounts(counts.items, counts.breaks, counts.fixes), confidence)

    assert mirrored == pytest.approx((-upper, -lower), abs=1e-12)


@pytest.mark.parametrize(("fixes", "breaks"), [(0, 0), (7, 0), (0, 7)])
def test_total_agreement_and_total_disagreement_have_an_interval(fixes: int, breaks: int) -> None:
    counts = PairedCounts(max(7, fixes + breaks), fixes, breaks)
    lower, upper = score_interval(counts, 0.95)

    assert lower <= counts.difference <= upper
    assert upper - lower > 0.2, "seven items prove little"


changes = st.lists(st.tuples(st.integers(1, 50), st.sampled_from([-1, 0, 1])), min_size=1, max_size=200)


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=1))
def test_one_question_a_case_has_no_design_effect(of_cases: list[int]) -> None:
    assert design_effect(enumerate(of_cases)) == 1


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=2).filter(lambda each: len(set(each)) > 1), st.integers(1, 5))
def test_a_question_asked_several_times_counts_once(of_cases: list[int], times: int) -> None:
    assert design_effect([(line, change) for line, change in enumerate(of_cases) for _ in range(times)]) == times


@given(changes)
def test_the_design_effect_is_the_ratio_of_variances(rows: list[tuple[int, int]]) -> None:
    values = np.array([change for _, change in rows], float)
    centred = values - values.mean()
    assume(np.any(centred))
    lines = np.array([line for line, _ in rows])
    together = sum(centred[lines == line].sum() ** 2 for line in set(lines.tolist()))

    assert design_effect(rows) == pytest.approx(max(1.0, together / (centred**2).sum()), rel=1e-9)


@given(paired_counts(), st.sampled_from([0.01, 0.02, 0.1]))
def test_so_many_items_decide_at_the_same_rates(counts: PairedCounts, margin: float) -> None:
    needed = items_to_decide(counts, margin, 0.95)
    assume(needed is not None and needed > 1)
    assert needed is not None

    def decides(items: int) -> bool:
        return abs(score_statistic(counts.shrunk(counts.items / items), -margin)) >= normal_quantile(0.95) - 1e-9

    assert decides(needed)
    assert not decides(needed - 1)


def test_no_number_of_items_decides_at_the_margin_itself() -> None:
    assert items_to_decide(PairedCounts(100, 0, 2), 0.02, 0.95) is None

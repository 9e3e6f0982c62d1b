"""McNemar's test agrees with statsmodels and with the binomial distribution."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from statsmodels.stats.contingency_tables import mcnemar as mcnemar_oracle

from reconciler.evaluation.mcnemar import change_p_values, drop_p_value

disagreements = st.integers(0, 3000)


@given(disagreements, disagreements)
def test_mcnemar_is_that_of_statsmodels(fixes: int, breaks: int) -> None:
    exact, _ = change_p_values(fixes, breaks)

    assert exact == pytest.approx(mcnemar_oracle([[0, breaks], [fixes, 0]], exact=True).pvalue, abs=1e-9)


@given(disagreements, disagreements)
def test_mid_p_counts_half_of_what_was_observed(fixes: int, breaks: int) -> None:
    total, least = fixes + breaks, min(fixes, breaks)
    expected = 2 * binom.cdf(least, total, 0.5) - binom.pmf(least, total, 0.5)

    assert change_p_values(fixes, breaks)[1] == pytest.approx(min(1, expected), abs=1e-9)


@given(disagreements, disagreements)
def test_a_drop_is_tested_one_sided(fixes: int, breaks: int) -> None:
    assert drop_p_value(fixes, breaks) == pytest.approx(binom.sf(breaks - 1, fixes + breaks, 0.5), abs=1e-9)


def test_without_disagreement_nothing_is_proven() -> None:
    assert drop_p_value(0, 0) == 1
    assert change_p_values(0, 0) == (1, 1)

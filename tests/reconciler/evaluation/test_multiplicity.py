"""Holm's correction agrees with statsmodels."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from reconciler.evaluation.multiplicity import holm


# statsmodels collects garbage at every call, which takes longer than all the rest of this module.
@settings(max_examples=5, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_holm_is_that_of_statsmodels(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1], abs=1e-9)


def test_nothing_tested_is_nothing_found() -> None:
    assert holm([]) == ()

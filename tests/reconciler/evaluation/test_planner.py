"""The planner's promises hold, against published power figures and simulated gates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from reconciler.evaluation.paired_accuracy import PairedCounts, normal_quantile, score_statistic
from reconciler.evaluation.planner import Aim, detectable, plan, power_to_notice


@pytest.mark.parametrize(
    ("items", "powers"),
    [
        (200, (0.27, 0.20, 0.15)),
        (500, (0.66, 0.43, 0.33)),
        (1000, (0.92, 0.71, 0.55)),
        (2000, (1.00, 0.92, 0.81)),
        (3000, (1.00, 0.98, 0.92)),
    ],
)
def test_the_published_power_to_see_two_points(items: int, powers: tuple[float, ...]) -> None:
    """The figures were simulated, so they are right to about two points (spec section 4.2 of the peers)."""
    computed = [power_to_notice(0.02, items=items, discordance=discordance) for discordance in (0.04, 0.08, 0.12)]

    assert computed == pytest.approx(powers, abs=0.025)


@given(st.integers(1, 300), st.floats(0.02, 0.9), st.floats(0, 1), st.sampled_from([0.8, 0.95, 0.99]))
def test_power_is_that_of_the_exact_test(items: int, discordance: float, share: float, confidence: float) -> None:
    """Against the same sum written out with SciPy."""
    drop = share * discordance
    disagreements = np.arange(items + 1)
    critical = binom.isf(1 - confidence, disagreements, 0.5) + 1
    critical -= binom.sf(critical - 2, disagreements, 0.5) <= 1 - confidence
    noticed = binom.sf(critical - 1, disagreements, (discordance + drop) / (2 * discordance))
    expected = np.sum(binom.pmf(disagreements, items, discordance) * noticed)

    computed = power_to_notice(drop, items=items, discordance=discordance, confidence=confidence)
    assert computed == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("aim", [Aim(margin=0.02, discordance=0.08), Aim(margin=0.05, discordance=0.1, power=0.9)])
def test_so_many_items_promote_an_equal_candidate_as_often_as_planned(aim: Aim) -> None:
    items = plan(aim).items
    rates = [aim.discordance / 2, aim.discordance / 2, 1 - aim.discordance]
    runs = np.random.default_rng(1).multinomial(items, rates, size=4000)
    reach = normal_quantile(aim.confidence)
    promoted = [score_statistic(PairedCounts(items, f, b), -aim.margin) > reach for f, b, _ in runs.tolist()]

    assert np.mean(promoted) == pytest.approx(aim.power, abs=0.02)
    assert detectable(aim, items, {}).promotes == pytest.approx(aim.power, abs=0.01)


def test_a_plan_is_a_sentence() -> None:
    assert plan(Aim(margin=0.02, discordance=0.08)).text == (
        "1277 items promote an equally good candidate in 80% of all runs, with a margin of 2 points and 8% disagreement"
    )


def test_what_a_data_set_can_tell_is_a_sentence() -> None:
    told = detectable(Aim(margin=0.02, discordance=0.08), 1000, {"refund": 400, "billing": 12, "other": 588})

    assert told.text == (
        "1000 items promote an equally good candidate in 71% of all runs, "
        "and a drop of 2.3 points is noticed in 80%; too few items of billing"
    )
    assert told.label_drops == {"billing": None, "other": 7 / 588, "refund": 7 / 400}


def test_half_of_a_label_is_noticed_among_twenty_with_twenty_items_each() -> None:
    """Why minItemsPerLabel is 20 unless said otherwise."""
    told = detectable(Aim(margin=0.02, discordance=0.08), 400, {f"label-{n}": 20 for n in range(20)})

    assert {drop is not None and drop <= 0.5 for drop in told.label_drops.values()} == {True}


def test_a_handful_of_items_notices_nothing() -> None:
    told = detectable(Aim(margin=0.02, discordance=0.08), 20, {"a": 20})

    assert told.drop is None
    assert "no drop is noticed" in told.text


@settings(max_examples=15)
@given(st.integers(50, 3000), st.sampled_from([0.04, 0.1]))
def test_the_drop_that_is_noticed_is_noticed(items: int, discordance: float) -> None:
    aim = Aim(margin=0.02, discordance=discordance)
    drop = detectable(aim, items, {}).drop

    if drop is not None:
        assert power_to_notice(drop, items=items, discordance=discordance) >= aim.power
        assert power_to_notice(drop - 0.001, items=items, discordance=discordance) < aim.power


@pytest.mark.parametrize(
    "aim", [{"margin": 0.0}, {"margin": 1.0}, {"discordance": 0.0}, {"confidence": 0.5}, {"power": 1.0}]
)
def test_an_impossible_aim_is_refused(aim: dict[str, float]) -> None:
    (name,) = aim
    with pytest.raises(ValueError, match=f"{name} is .*, but must be above"):
        Aim(**{"margin": 0.02, "discordance": 0.08, **aim})


def test_no_items_can_tell_nothing() -> None:
    with pytest.raises(ValueError, match="without items"):
        detectable(Aim(margin=0.02, discordance=0.08), 0, {})

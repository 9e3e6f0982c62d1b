"""Log-loss and Brier score agree with scikit-learn, and their bootstrap with what a mean's should be."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from reconciler.evaluation.proper_scores import BRIER, LOG_LOSS, Change, ProperScore, Resampling
from reconciler.evaluation.stored_table import Precision, store
from reconciler.evaluation.table import Item, QuestionKind
from tests.reconciler.evaluation.paired_tables import EXACT, choice, choices, outcomes

RESAMPLING = Resampling(resamples=500, confidence=0.95, seed=7)
NAMES = ("a", "b", "c")

shares = st.lists(st.integers(1, 1000), min_size=3, max_size=3).map(lambda parts: [part / sum(parts) for part in parts])
answers = st.lists(st.tuples(st.sampled_from(NAMES), shares), min_size=2, max_size=30)


def table(rows: list[tuple[str, list[float]]]) -> list[Item]:
    return [
        Item(
            line=line,
            question="q",
            kind=QuestionKind.CHOICE,
            expected=expected,
            predicted="a",
            correct=expected == "a",
            probabilities=dict(zip(NAMES, given, strict=True)),
        )
        for line, (expected, given) in enumerate(rows, 1)
    ]


def measured(score: ProperScore, stable: list[Item], candidate: list[Item], precision: Precision = EXACT) -> Change:
    pairs = list(zip(store(stable, precision), store(candidate, precision), strict=True))
    change = score.change(pairs, RESAMPLING)
    assert change is not None
    return change


def stored_shares(items: list[Item]) -> list[list[float]]:
    """What is kept, made to add up exactly as scikit-learn wants it."""
    rows = [[(row.probabilities[name] or 0) / 1e6 for name in NAMES] for row in store(items, EXACT)]
    return [[share / sum(row) for share in row] for row in rows]


@settings(max_examples=40, deadline=None)
@given(answers)
def test_the_scores_are_those_of_scikit_learn(rows: list[tuple[str, list[float]]]) -> None:
    items = table(rows)
    expected = [each for each, _ in rows]
    kept = stored_shares(items)
    # What is kept may add up to 1 give or take a rounding; scikit-learn gets it made exact.
    off = 3e-6

    assert measured(LOG_LOSS, items, items).stable == pytest.approx(log_loss(expected, kept, labels=NAMES), abs=off)
    brier = brier_score_loss(expected, kept, labels=list(NAMES), scale_by_half=True)
    assert measured(BRIER, items, items).stable == pytest.approx(brier, abs=off)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 999_999)), min_size=2, max_size=30))
@settings(max_examples=40, deadline=None)
def test_with_two_labels_the_scores_are_exact(rows: list[tuple[bool, int]]) -> None:
    items = [choice(line, True, expected="ab"[flag], sure=1 - p / 1e6) for line, (flag, p) in enumerate(rows, 1)]
    given_b = [1 - p / 1e6 if flag else p / 1e6 for flag, p in rows]
    flags = [flag for flag, _ in rows]

    expected = log_loss(flags, given_b, labels=[False, True])
    assert measured(LOG_LOSS, items, items).stable == pytest.approx(expected, abs=1e-9)
    expected = brier_score_loss(flags, given_b, labels=[False, True], pos_label=True)
    assert measured(BRIER, items, items).stable == pytest.approx(expected, abs=1e-9)


def test_a_probability_of_zero_costs_as_much_as_the_least_that_is_kept() -> None:
    items = choices([False, False], sure=1.0)

    assert measured(LOG_LOSS, items, items).stable == pytest.approx(math.log(1_000_000))


def test_what_was_left_out_counts_as_one_label() -> None:
    items = table([("b", [0.5, 0.3, 0.2])] * 2)
    change = measured(BRIER, items, items, Precision(decimals=6, top=1))

    assert change.stable == pytest.approx((0.5**2 + 0.7**2 + 0.2**2) / 2)


def test_equal_answers_are_no_rise() -> None:
    items = choices([True, False] * 50)
    change = measured(LOG_LOSS, items, items)

    assert (change.lower, change.upper, change.p_value) == (0, 0, 1)


def test_one_case_proves_nothing() -> None:
    assert measured(LOG_LOSS, choices([True]), choices([False])).p_value == 1


def test_the_same_rise_everywhere_is_proven() -> None:
    change = measured(LOG_LOSS, choices([True] * 50, sure=0.9), choices([True] * 50, sure=0.8))

    assert change.lower == change.upper == pytest.approx(math.log(0.9 / 0.8), abs=1e-6)
    assert change.p_value == pytest.approx(1 / 501)


def test_the_bootstrap_of_many_items_is_nearly_normal() -> None:
    random = np.random.default_rng(3)
    stable = choices([True] * 2000, sure=0.8)
    candidate = [choice(item.line, True, expected=item.expected, sure=0.8 + random.normal(0, 0.05)) for item in stable]
    rises = np.array([-math.log(max(c.probabilities[c.expected], 1e-6) / 0.8) for c in candidate])
    error = rises.std() / math.sqrt(len(rises))
    pairs = list(zip(store(stable, EXACT), store(candidate, EXACT), strict=True))
    change = LOG_LOSS.change(pairs, Resampling(resamples=4000, confidence=0.95, seed=7))
    assert change is not None

    reach = NormalDist().inv_cdf(0.95) * error
    assert change.lower == pytest.approx(rises.mean() - reach, abs=0.15 * error)
    assert change.upper == pytest.approx(rises.mean() + reach, abs=0.15 * error)
    assert change.p_value == pytest.approx(1 - NormalDist().cdf(rises.mean() / error), abs=0.03)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.sampled_from([0.6, 0.95, 0.999999]))
@example([-1, -2, -1], 0.6)
def test_an_interval_is_always_one(tenths: list[int], confidence: float) -> None:
    stable = [choice(line, True, sure=0.6) for line in range(1, len(tenths) + 1)]
    candidate = [choice(line, True, sure=0.6 + by / 10) for line, by in enumerate(tenths, 1)]
    pairs = list(zip(store(stable, EXACT), store(candidate, EXACT), strict=True))
    change = LOG_LOSS.change(pairs, Resampling(500, confidence, seed=7))

    assert change is not None
    assert math.isfinite(change.lower)
    assert math.isfinite(change.upper)
    assert change.lower <= change.upper
    assert 0 < change.p_value <= 1


def test_questions_of_one_case_are_drawn_together() -> None:
    right = outcomes(300, fixes=30, breaks=40)

    def asked(times: int) -> tuple[list[Item], list[Item]]:
        stable, candidate = (
            [choice(line, each, question=f"q{index}") for line, each in enumerate(of, 1) for index in range(times)]
            for of in right
        )
        return stable, candidate

    assert measured(BRIER, *asked(1)) == measured(BRIER, *asked(4))


def test_the_seed_is_all_the_chance_there_is() -> None:
    stable, candidate = (choices(right) for right in outcomes(200, fixes=5, breaks=9))
    pairs = list(zip(store(stable, EXACT), store(candidate, EXACT), strict=True))

    assert BRIER.change(pairs, RESAMPLING) == BRIER.change(pairs, RESAMPLING)
    assert BRIER.change(pairs, RESAMPLING) != BRIER.change(pairs, Resampling(500, 0.95, seed=8))


def test_without_probabilities_there_is_no_score() -> None:
    items = store(choices([True, False], probabilities={}), EXACT)

    assert LOG_LOSS.change(list(zip(items, items, strict=True)), RESAMPLING) is None

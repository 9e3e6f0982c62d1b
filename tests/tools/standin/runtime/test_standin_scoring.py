"""The arithmetic of answers: sensible, deterministic, wrong as often as told (spec section 2.8)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.standin.runtime.parameters import ModelParameters
from tools.standin.runtime.questions import Question
from tools.standin.runtime.scoring import (
    answer,
    confidence,
    distribution,
    errs,
    expected_level,
    laya_extra,
    most_probable,
    scripted_distribution,
)
from tools.standin.runtime.words import count_tokens, cut_tokens, stem

TEAMS = Question(
    "team",
    "choice",
    "Who handles it?",
    (
        ("billing", "invoices, payments, refunds"),
        ("technical", "errors, crashes, bugs"),
        ("account", "password, login, profile"),
        ("other", "anything else"),
    ),
)
DISTRIBUTIONS = st.lists(st.floats(0.001, 1), min_size=2, max_size=10).map(
    lambda weights: [weight / sum(weights) for weight in weights]
)


def best(question: Question, state: str, **parameters: float) -> str:
    probabilities = distribution(question, state, ModelParameters(**parameters), "digest")  # type: ignore[arg-type] # numbers
    return question.options[most_probable(probabilities)][0]


@pytest.mark.parametrize(
    ("state", "team"),
    [
        ("My payment failed and I want a refund", "billing"),
        ("The app crashed with an error", "technical"),
        ("I forgot my passwords", "account"),
        ("What a lovely day", "other"),
        ("", "other"),
    ],
)
def test_words_decide(state: str, team: str) -> None:
    assert best(TEAMS, state) == team


@pytest.mark.parametrize(
    ("state", "holds"), [("Please refund my order", True), ("How do I log in?", False), ("", False)]
)
def test_a_statement_holds_when_its_words_are_there(state: str, holds: bool) -> None:
    question = Question("refund", "noul", "The customer wants a refund", (("true", None), ("false", None)))
    assert (distribution(question, state, ModelParameters(), "d")[0] >= 0.5) == holds


def test_criteria_of_both_sides_count() -> None:
    question = Question("angry", "noul", "angry", (("true", "furious, angry"), ("false", "friendly, thankful")))
    assert distribution(question, "a friendly, thankful note", ModelParameters(), "d")[0] < 0.2


@pytest.mark.parametrize(("one", "other"), [("charged", "charges"), ("refunds", "refund"), ("payments", "payment")])
def test_forms_of_a_word_meet(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@given(st.text(max_size=200), st.floats(0, 100), st.floats(0.01, 100), st.floats(0, 1))
def test_every_answer_is_a_distribution_and_repeats(
    state: str, sharpness: float, temperature: float, error: float
) -> None:
    parameters = ModelParameters(sharpness, error, temperature)
    first = distribution(TEAMS, state, parameters, "digest")
    assert first == distribution(TEAMS, state, parameters, "digest")
    assert math.isclose(sum(first), 1.0, abs_tol=1e-9)
    wire: dict[str, Any] = answer(TEAMS, first)
    assert wire["choice"] in dict(TEAMS.options)
    assert 0 <= wire["confidence"] <= 1


def test_the_error_is_the_share_of_states_answered_wrongly() -> None:
    states = [f"I want a refund for order {number}" for number in range(400)]
    wrong = [state for state in states if best(TEAMS, state, error=0.25) != "billing"]
    assert 60 <= len(wrong) <= 140
    assert all(errs("digest", state, "team", 0.25) for state in wrong)
    worse = {state for state in states if best(TEAMS, state, error=0.5) != "billing"}
    assert set(wrong) <= worse
    assert all(best(TEAMS, state, error=1.0) != "billing" for state in states)


def test_even_a_guess_is_wrong_when_told() -> None:
    question = Question("q", "choice", "q", (("a", None), ("b", None)))
    assert best(question, "nothing fits") != best(question, "nothing fits", error=1.0)


def test_a_small_temperature_is_over_confident() -> None:
    state = "refund"
    certain = max(distribution(TEAMS, state, ModelParameters(temperature=0.2), "d"))
    unsure = max(distribution(TEAMS, state, ModelParameters(temperature=3.0), "d"))
    assert certain > 0.99
    assert unsure < 0.6


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [((0.75, 0.25), 0.5), ((0.7, 0.2, 0.1), 0.55), ((0.4, 0.2, 0.2, 0.2), 0.2), ((0.5, 0.5), 0.0), ((1.0, 0.0), 1.0)],
)
def test_confidence(probabilities: tuple[float, ...], expected: float) -> None:
    assert confidence(probabilities) == pytest.approx(expected)


def test_the_expected_level() -> None:
    assert expected_level((0.1, 0.2, 0.7)) == pytest.approx(1.6)


@given(DISTRIBUTIONS)
def test_confidence_and_entropy_agree_on_their_ends(probabilities: list[float]) -> None:
    question = Question("q", "choice", "q", tuple((str(n), None) for n in range(len(probabilities))))
    assert 0 <= confidence(probabilities) <= 1
    assert -0.0001 <= laya_extra(question, probabilities)["confidence"] <= 1


@pytest.mark.parametrize("scripted", ["nowhere", [1], ["a", "b"], {"x": "a"}, None])
def test_a_script_that_does_not_fit_is_no_script(scripted: Any) -> None:
    assert scripted_distribution(TEAMS, scripted) is None


@given(st.text(max_size=80), st.integers(0, 30))
def test_a_cut_text_has_at_most_so_many_tokens(text: str, limit: int) -> None:
    cut = cut_tokens(text, limit)
    assert text.startswith(cut)
    assert count_tokens(cut) == min(limit, count_tokens(text))

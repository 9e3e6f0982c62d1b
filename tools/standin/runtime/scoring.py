"""Answers: how well a state's words fit each option, as probabilities (pure and deterministic).

An option scores the weights of its words that occur in the state; a word is worth the more the fewer options use it.
The softmax of the scores, with the model's own gain and temperature, is the distribution. Confidence and rounding are
those of spec section 2.8.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from .parameters import ModelParameters
from .questions import Question, as_text
from .words import is_catch_all, stems

_CATCH_ALL_SCORE: Final = 0.5
_DOUBT: Final = 0.5


def answer(question: Question, probabilities: Sequence[float]) -> dict[str, Any]:
    """Return the wire form of a distribution over the question's options."""
    labels = [label for label, _ in question.options]
    if question.kind == "noul":
        return {"type": "noul", "noul": round(probabilities[0], 4)}
    shown = {label: round(p, 4) for label, p in zip(labels, probabilities, strict=True)}
    certainty = round(confidence(probabilities), 4)
    if question.kind == "choice":
        best = labels[most_probable(probabilities)]
        return {"type": "choice", "choice": best, "confidence": certainty, "probabilities": shown}
    legend = dict(question.options)
    score = round(expected_level(probabilities), 4)
    return {"type": "score", "score": score, "confidence": certainty, "legend": legend, "probabilities": shown}


def distribution(question: Question, state: str, parameters: ModelParameters, model_digest: str) -> tuple[float, ...]:
    """Return one probability per option; the same model, state and question always give the same."""
    scores = option_scores(question, state)
    if errs(model_digest, state, question.id, parameters.error):
        scores = _mistaken(scores, f"{model_digest}{state}{question.id}")
    return softmax(scores, parameters.sharpness / parameters.temperature)


def scripted_distribution(question: Question, scripted: Any) -> tuple[float, ...] | None:
    """Return the distribution a script asks for, None when it does not fit the question."""
    if isinstance(scripted, dict):
        return scripted_distribution(question, scripted.get(question.id))
    if isinstance(scripted, list):
        fits = len(scripted) == len(question.options) and all(type(p) in {int, float} for p in scripted)
        return tuple(float(p) for p in scripted) if fits else None
    wanted = str(scripted).lower() if isinstance(scripted, bool) else str(scripted)
    labels = [label for label, _ in question.options]
    return tuple(float(label == wanted) for label in labels) if wanted in labels else None


def option_scores(question: Question, state: str) -> list[float]:
    """Return how well each option fits the state, 0 for no common word."""
    words_of_option = [_words(question, label, description) for label, description in question.options]
    uses = Counter(word for words in words_of_option for word in words)
    heard = set(stems(state))
    scores = [
        sum(math.log(1 + len(words_of_option) / uses[word]) for word in words & heard) for words in words_of_option
    ]
    bias = [_bias(question.kind, label, description) for label, description in question.options]
    return [score + extra for score, extra in zip(scores, bias, strict=True)]


def softmax(scores: Sequence[float], gain: float) -> tuple[float, ...]:
    """Return the distribution proportional to exp(gain x score)."""
    top = max(scores)
    weights = [math.exp(gain * (score - top)) for score in scores]
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def confidence(probabilities: Sequence[float]) -> float:
    """Return (K p_max - 1) / (K - 1), clamped to 0..1."""
    count = len(probabilities)
    return min(1.0, max(0.0, (count * max(probabilities) - 1) / (count - 1)))


def expected_level(probabilities: Iterable[float]) -> float:
    """Return the mean level of a score question."""
    return sum(level * p for level, p in enumerate(probabilities))


def laya_extra(question: Question, probabilities: Sequence[float]) -> dict[str, Any]:
    """Return the `laya` object of spec section 2.7: confidence by entropy, by the larger side for a noul."""
    if question.kind == "noul":
        return {"confidence": round(max(probabilities), 4), "act_probability": None}
    entropy = -sum(p * math.log(p) for p in probabilities if p > 0)
    return {"confidence": round(1 - entropy / math.log(len(probabilities)), 4), "act_probability": None}


def most_probable(probabilities: Sequence[float]) -> int:
    """Return the index of the largest probability, the lowest one of equals."""
    return max(range(len(probabilities)), key=lambda index: (probabilities[index], -index))


def errs(model_digest: str, state: str, question_id: str, fraction: float) -> bool:
    """Tell whether the model gets this question wrong: the same `fraction` of states for good."""
    return _hash_fraction(f"{model_digest}\0{state}\0{question_id}") < fraction


def _hash_fraction(text: str) -> float:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big") / 2**64


def _mistaken(scores: list[float], seed: str) -> list[float]:
    best = most_probable(scores)
    others = [index for index in range(len(scores)) if index != best]
    wrong = others[int(_hash_fraction(seed) * len(others))]
    swapped = list(scores)
    swapped[best], swapped[wrong] = scores[wrong], scores[best]
    if swapped[best] == swapped[wrong]:  # nothing told them apart: make the mistake visible
        swapped[wrong] += 1.0
    return swapped


def _words(question: Question, label: str, description: Any) -> set[str]:
    if question.kind == "choice":
        return set(stems(f"{label} {as_text(description)}"))
    if question.kind == "score":
        return set(stems(as_text(description)))
    statement = as_text(question.instructions) if label == "true" else ""
    return set(stems(f"{statement} {as_text(description)}"))


def _bias(kind: str, label: str, description: Any) -> float:
    if kind == "noul":
        return _DOUBT if label == "false" else 0.0
    return _CATCH_ALL_SCORE if kind == "choice" and is_catch_all(f"{label} {as_text(description)}") else 0.0

"""One decision request on the runtime's wire, and what its answers say (`/v1/systemone`, spec section 7.2).

Answers come from a Pod, so they are hostile: an answer that breaks the contract is as good as none, and one bad answer
does not spoil those beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from reconciler.engine.errors import MalformedAnswer

_LARGEST: Final = 1e9

_HAIR: Final = 1e-6
"""How far outside 0 to 1 the sums of a runtime's single precision may end."""
Probability = Annotated[float, msgspec.Meta(ge=-_HAIR, le=1 + _HAIR)]
# Bounded, because a reader of scores must never meet an infinity.
_Number = Annotated[float, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]


@dataclass(frozen=True, slots=True)
class Enquiry:
    """What a model is asked. `state` and `questions` are JSON texts and travel byte for byte."""

    model: str
    """The name as the runtime understands it (`ModelName.reference`)."""
    state: bytes
    questions: bytes

    def body(self) -> bytes:
        """The request's body."""
        parts = {"model": self.model, "state": msgspec.Raw(self.state), "questions": msgspec.Raw(self.questions)}
        return msgspec.json.encode(parts)


class ChoiceAnswer(msgspec.Struct, frozen=True, tag_field="type", tag="choice"):
    """One label, and how probable each label is; no probabilities when the model gives none."""

    choice: str
    probabilities: dict[str, Probability] | None = None


class NoulAnswer(msgspec.Struct, frozen=True, tag_field="type", tag="noul"):
    """The probability that a statement holds."""

    noul: Probability


class ScoreAnswer(msgspec.Struct, frozen=True, tag_field="type", tag="score"):
    """A place on a scale, and how probable each of its levels is; the probabilities are not checked yet."""

    score: _Number
    probabilities: dict[str, float] | None = None


Answer = ChoiceAnswer | NoulAnswer | ScoreAnswer


class _Answered(msgspec.Struct):
    answers: dict[str, msgspec.Raw]


_ANSWERED: Final = msgspec.json.Decoder(_Answered)
_ANSWER: Final[msgspec.json.Decoder[Answer]] = msgspec.json.Decoder(Answer)


def parse_answers(body: bytes) -> Mapping[str, Answer]:
    """The usable answers of a successful response by question id; those that break the contract are left out.

    Raises:
        MalformedAnswer: The body holds no answers at all.
    """
    try:
        raw = _ANSWERED.decode(body).answers
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise MalformedAnswer("the runtime's answer to a decision is not what its contract says") from None
    usable = ((question, _usable(answer)) for question, answer in raw.items())
    return {question: answer for question, answer in usable if answer is not None}


def _usable(raw: msgspec.Raw) -> Answer | None:
    try:
        return _within_bounds(_ANSWER.decode(raw))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def _within_bounds(answer: Answer) -> Answer:
    """The answer with what is a hair outside 0 to 1 at the bound; whatever is further off stays to be refused."""
    if isinstance(answer, NoulAnswer):
        return NoulAnswer(_bounded(answer.noul))
    if answer.probabilities is None:
        return answer
    return msgspec.structs.replace(
        answer, probabilities={label: _bounded(given) for label, given in answer.probabilities.items()}
    )


def _bounded(given: float) -> float:
    return min(1.0, max(0.0, given)) if -_HAIR <= given <= 1 + _HAIR else given

"""Golden data sets: JSON Lines in, frozen cases out (spec section 7.1).

Whoever may write a ConfigMap may write a data set, so its bytes are hostile. States and questions are checked to be
JSON, but never built: they stay the texts that the runtime will get. Measured for hostile lines of 1 MiB, building
them with the standard library takes up to 180 ms in one call that no other thread can interrupt, and 25 MiB. This holds
other threads up for at most 27 ms, and keeps nothing but labels.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Final

import msgspec

from reconciler.evaluation.errors import DatasetInvalid
from reconciler.evaluation.table import QuestionKind

SIZE_LIMIT: Final = 1 << 20
"""Bytes of a data set."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_JSON_WHITESPACE: Final = b" \t\r"
_TEXT_OF_LINE: Final = re.compile(rb"[^ \t\r\n][^\n]*+")
_LONGEST_QUOTE: Final = 63
_STRUCTURE: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}:]')
_OPENING: Final = (b"{", b"[")
_CLOSING: Final = (b"}", b"]")
_KIND_OF_VALUE: Final[Mapping[type, QuestionKind]] = {
    str: QuestionKind.CHOICE,
    bool: QuestionKind.NOUL,
    int: QuestionKind.SCORE,
}
_JSON_TYPE: Final = {QuestionKind.CHOICE: "a string", QuestionKind.NOUL: "a boolean", QuestionKind.SCORE: "an integer"}

ExpectedValue = str | bool | int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedAnswer:
    """What one question of a case should be answered with.

    A choice has a string and the `labels` it was asked to choose from, a noul a boolean, a score an integer and, where
    the case gives one, the `tolerance` it may be off by.
    """

    question: str
    kind: QuestionKind
    value: ExpectedValue
    labels: tuple[str, ...] = ()
    tolerance: Fraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line of a data set: `line` from 1, `state` and `questions` as the JSON texts that they are there."""

    line: int
    state: bytes
    questions: bytes
    expected: tuple[ExpectedAnswer, ...]


@dataclass(frozen=True, slots=True)
class Dataset:
    """The cases that are used, and the first 16 hex digits of the SHA-256 of all bytes."""

    cases: tuple[Case, ...]
    digest: str


_Tolerance = Annotated[float, msgspec.Meta(ge=0)]
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KIND: Final = msgspec.json.Decoder(QuestionKind)
_LABELS: Final = msgspec.json.Decoder(list[str])
_EXPECTED: Final[msgspec.json.Decoder[ExpectedValue]] = msgspec.json.Decoder(ExpectedValue)
_TOLERANCE: Final = msgspec.json.Decoder(_Tolerance)
_ABSENT: Final = msgspec.Raw(b"null")
"""What stands for a member that is not there; writing it means the same."""


def parse_dataset(content: bytes, max_cases: int) -> Dataset:
    """Read a data set. Every line is checked, but only the first `max_cases` cases are kept.

    So whether a data set is valid does not depend on how much of it is used. A thousand cases take a tenth of a
    second, hostile bytes more than one: run it in a thread where others wait.

    Raises:
        DatasetInvalid: It is too large, a line is no case, or there is no case at all.
    """
    if len(content) > SIZE_LIMIT:
        raise DatasetInvalid(f"the data set has {len(content)} bytes, more than {SIZE_LIMIT}")
    cases: list[Case] = []
    for number, line in _lines(content):
        case = _case(number, line)
        if len(cases) < max_cases:
            cases.append(case)
    if not cases:
        raise DatasetInvalid("the data set has no case")
    return Dataset(tuple(cases), hashlib.sha256(content).hexdigest()[:16])


def _lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and text of each line that is not blank; editors leave byte order marks and CRLF."""
    content = content.removeprefix(_BYTE_ORDER_MARK)
    number, counted = 1, 0
    for text in _TEXT_OF_LINE.finditer(content):
        number += content.count(b"\n", counted, text.start())
        counted = text.start()
        yield number, text[0].rstrip(_JSON_WHITESPACE)


def _case(number: int, line: bytes) -> Case:
    try:
        return _parsed_case(number, line)
    except _Malformed as error:
        raise DatasetInvalid(str(error), line=number) from None
    except UnicodeDecodeError:
        raise DatasetInvalid("is not UTF-8", line=number) from None
    except RecursionError:
        raise DatasetInvalid("is nested too deeply", line=number) from None


class _Malformed(Exception):  # noqa: N818 - internal: it becomes DatasetInvalid where the line's number is known
    """What is wrong with a line; never a piece of its state."""


def _parsed_case(number: int, line: bytes) -> Case:
    line.decode()  # The JSON reader does not look into the strings that it passes over.
    members = _members(line, "the line")
    missing = [key for key in ("state", "questions", "expected") if key not in members]
    if missing:
        raise _Malformed(f"{missing[0]!r} is missing")
    questions = _members(members["questions"], "'questions'")
    expected = _members(members["expected"], "'expected'")
    tolerances = _tolerances(members.get("tolerance", _ABSENT))
    if not expected:
        raise _Malformed("'expected' is empty")
    return Case(
        line=number,
        state=bytes(members["state"]),
        questions=bytes(members["questions"]),
        expected=tuple(
            _expected_answer(question, value, questions, tolerances.get(question))
            for question, value in expected.items()
        ),
    )


def _expected_answer(
    question: str, raw: msgspec.Raw, questions: Mapping[str, msgspec.Raw], tolerance: Fraction | None
) -> ExpectedAnswer:
    if question not in questions:
        raise _Malformed(f"'expected' has an answer to {_quoted(question)}, which is not asked")
    try:
        value = _EXPECTED.decode(raw)
    except msgspec.MsgspecError:
        raise _Malformed(f"'expected' of {_quoted(question)} is no string, boolean or integer") from None
    kind = _KIND_OF_VALUE[type(value)]
    definition = _definition(question, questions[question])
    asked = _asked_kind(definition)
    if asked is not None and asked is not kind:
        raise _Malformed(f"'expected' of {_quoted(question)} must be {_JSON_TYPE[asked]}, because it is a {asked}")
    labels = _labels(question, definition.get("criteria", _ABSENT)) if kind is QuestionKind.CHOICE else ()
    return ExpectedAnswer(question=question, kind=kind, value=value, labels=labels, tolerance=tolerance)


def _definition(question: str, raw: msgspec.Raw) -> Mapping[str, msgspec.Raw]:
    """The members of a question's definition; the runtime is the one to refuse what is none."""
    return _members(raw, f"question {_quoted(question)}") if _is_object(raw) else {}


def _asked_kind(definition: Mapping[str, msgspec.Raw]) -> QuestionKind | None:
    """The type that a question says it has; None for one that only the runtime may know."""
    try:
        return _KIND.decode(definition.get("type", _ABSENT))
    except msgspec.ValidationError:
        return None


def _labels(question: str, criteria: msgspec.Raw) -> tuple[str, ...]:
    """The labels of a choice: the keys of an object, or a list of strings."""
    if _is_object(criteria):
        return tuple(_members(criteria, f"'criteria' of {_quoted(question)}"))
    try:
        return tuple(_LABELS.decode(criteria))
    except msgspec.ValidationError:
        return ()


def _is_object(raw: msgspec.Raw) -> bool:
    return bytes(raw).startswith(b"{")


def _tolerances(raw: msgspec.Raw) -> dict[str, Fraction]:
    if bytes(raw) == bytes(_ABSENT):
        return {}
    return {question: _tolerance(question, value) for question, value in _members(raw, "'tolerance'").items()}


def _tolerance(question: str, raw: msgspec.Raw) -> Fraction:
    try:
        # By way of its digits: 0.1 means a tenth, not the double next to it.
        return Fraction(repr(_TOLERANCE.decode(raw)))
    except msgspec.MsgspecError:
        raise _Malformed(f"'tolerance' of {_quoted(question)} is no number from 0") from None


def _members(raw: bytes | msgspec.Raw, what: str) -> dict[str, msgspec.Raw]:
    """The members of an object, each name once: every reader takes repeated ones differently (RFC 8259 section 4)."""
    try:
        members = _OBJECT.decode(raw)
    except msgspec.ValidationError:
        raise _Malformed(f"{what} is no JSON object") from None
    except msgspec.MsgspecError:
        raise _Malformed(f"{what} is not JSON") from None
    text = bytes(raw)
    # Each member has a colon: where there are as many as names, no name can have been there twice, and no scan is due.
    if text.count(b":") != len(members) != _count_members(text):
        raise _Malformed(f"{what} has a name twice")
    return members


def _count_members(text: bytes) -> int:
    """How many members a valid JSON object has, repeated ones included."""
    depth = count = 0
    for token in _STRUCTURE.finditer(text):
        mark = token[0]
        if mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1
        elif mark == b":" and depth == 1:
            count += 1
    return count


def _quoted(question: str) -> str:
    """The beginning of a question's id, with whatever cannot be printed escaped: anybody may have written anything."""
    return repr(question[:_LONGEST_QUOTE])

"""Golden data sets: what is read, what is refused and how, and what hostile ones may cost."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.evaluation.dataset import SIZE_LIMIT, Case, parse_dataset
from reconciler.evaluation.errors import DatasetInvalid
from reconciler.evaluation.table import QuestionKind
from tests.reconciler.evaluation.golden_lines import EXPECTED, QUESTIONS, REFUND, TEAM, URGENCY, line, lines

SECRET = "the customer's own words"
ROOT = Path(__file__).parents[3]


def only_case(content: bytes) -> Case:
    (case,) = parse_dataset(content, 10).cases
    return case


def refused(content: bytes) -> DatasetInvalid:
    with pytest.raises(DatasetInvalid) as error:
        parse_dataset(content, 5000)
    return error.value


def test_a_case_keeps_state_and_questions_as_they_are_written() -> None:
    case = only_case(
        b'{"state": {"a" : 1.0, "n": 1e2},"questions":{"q":{"type":"noul", "new": [1] }},"expected":{"q":false}}'
    )
    assert case.state == b'{"a" : 1.0, "n": 1e2}'
    assert case.questions == b'{"q":{"type":"noul", "new": [1] }}'


def test_expected_answers_have_the_kind_of_their_value() -> None:
    team, refund, urgency = only_case(line(tolerance={"urgency": 0.1})).expected
    assert (team.kind, team.value, team.labels) == (QuestionKind.CHOICE, "billing", ("billing", "tech", "other"))
    assert (refund.kind, refund.value, refund.labels) == (QuestionKind.NOUL, True, ())
    assert (urgency.kind, urgency.value, urgency.tolerance) == (QuestionKind.SCORE, 2, Fraction(1, 10))
    assert team.tolerance is None


@pytest.mark.parametrize("criteria", [["a", "b"], {"a": None, "b": {"note": "x"}}])
def test_labels_come_from_either_form_of_criteria(criteria: Any) -> None:
    question = {"type": "choice", "criteria": criteria}
    assert only_case(line(questions={"q": question}, expected={"q": "a"})).expected[0].labels == ("a", "b")


@pytest.mark.parametrize("criteria", [None, 7, [1, 2], "a"])
def test_criteria_that_only_the_runtime_can_refuse_are_left_to_it(criteria: Any) -> None:
    question = {"type": "choice", "criteria": criteria}
    assert only_case(line(questions={"q": question}, expected={"q": "a"})).expected[0].labels == ()


@pytest.mark.parametrize("definition", [None, "is it?", {"type": "box"}, {"type": 7}, {}])
def test_types_that_only_the_runtime_knows_are_left_to_it(definition: Any) -> None:
    assert only_case(line(questions={"q": definition}, expected={"q": 1})).expected[0].kind is QuestionKind.SCORE


def test_only_expected_questions_are_scored_and_unknown_members_do_not_disturb() -> None:
    case = only_case(line(expected={"refund": False}, tolerance={"elsewhere": 1}, comment="why", slice=3))
    assert [each.question for each in case.expected] == ["refund"]


@pytest.mark.parametrize("state", ["", "text", {}, [1, [2]], None, 3, False])
def test_a_state_may_be_any_json_value(state: Any) -> None:
    assert json.loads(only_case(line(state=state)).state) == state


@pytest.mark.parametrize("absent", [..., None])
def test_a_tolerance_may_be_absent(absent: Any) -> None:
    assert all(each.tolerance is None for each in only_case(line(tolerance=absent)).expected)


def test_lines_count_from_one_with_blank_ones_and_whatever_editors_leave() -> None:
    content = b"\xef\xbb\xbf\r\n" + line() + b"\r\n \t\r\n\n" + line() + b"\r\n"
    assert [case.line for case in parse_dataset(content, 10).cases] == [2, 5]


def test_only_a_line_feed_ends_a_line() -> None:
    content = json.dumps({"state": "a\u2028b\x0b", "questions": {"q": REFUND}, "expected": {"q": True}})
    assert only_case(content.replace("\\u2028", "\u2028").encode()).line == 1


def test_the_first_cases_are_used() -> None:
    dataset = parse_dataset(lines(*[line()] * 5), 3)
    assert [case.line for case in dataset.cases] == [1, 2, 3]


def test_a_malformed_line_is_refused_even_beyond_the_cases_that_are_used() -> None:
    with pytest.raises(DatasetInvalid, match="line 3"):
        parse_dataset(lines(line(), line(), b"{"), 1)


def test_the_digest_is_of_all_bytes() -> None:
    content = lines(line(), line())
    assert parse_dataset(content, 1).digest == hashlib.sha256(content).hexdigest()[:16]
    assert parse_dataset(content + b"\n", 1).digest != parse_dataset(content, 1).digest


@pytest.mark.parametrize("content", [b"", b"\n\n", b" \r\n\t", b"\xef\xbb\xbf"])
def test_no_case_at_all_is_no_data_set(content: bytes) -> None:
    assert refused(content).line is None


def test_a_data_set_has_a_size_limit() -> None:
    padding = b" " * (SIZE_LIMIT - len(line()))
    assert len(parse_dataset(line() + padding, 1).cases) == 1
    assert refused(line() + padding + b" ").line is None


MALFORMED: list[tuple[bytes, str]] = [
    (b"{", "not JSON"),
    (b"null", "the line is no JSON object"),
    (b"[]", "the line is no JSON object"),
    (line() + b" {}", "not JSON"),
    (line() + b"\x00", "not JSON"),
    (line(state=...), "'state' is missing"),
    (line(questions=...), "'questions' is missing"),
    (line(expected=...), "'expected' is missing"),
    (line(expected={}), "'expected' is empty"),
    (line(expected=[]), "'expected' is no JSON object"),
    (line(expected=None), "'expected' is no JSON object"),
    (line(questions=[]), "'questions' is no JSON object"),
    (line(tolerance=0.5), "'tolerance' is no JSON object"),
    (line(expected={"nobody": "a"}), "'nobody', which is not asked"),
    (line(expected={"team": None}), "'team' is no string, boolean or integer"),
    (line(expected={"urgency": 1.5}), "'urgency' is no string, boolean or integer"),
    (line(expected={"urgency": 2.0}), "'urgency' is no string, boolean or integer"),
    (line(expected={"team": ["billing"]}), "'team' is no string, boolean or integer"),
    (line(expected={"urgency": True}), "'urgency' must be an integer, because it is a score"),
    (line(expected={"urgency": "2"}), "'urgency' must be an integer, because it is a score"),
    (line(expected={"refund": 1}), "'refund' must be a boolean, because it is a noul"),
    (line(expected={"team": True}), "'team' must be a string, because it is a choice"),
    (line(tolerance={"urgency": -0.5}), "'urgency' is no number from 0"),
    (line(tolerance={"urgency": True}), "'urgency' is no number from 0"),
    (line(tolerance={"urgency": "1"}), "'urgency' is no number from 0"),
    (line().replace(b'"urgency": 2', b'"urgency": NaN'), "not JSON"),
    (line(state=0).replace(b'"state": 0', b'"state": Infinity'), "not JSON"),
    (line(tolerance={"urgency": 0}).replace(b'"urgency": 0}', b'"urgency": 1e999}'), "no number from 0"),
    (line().replace(b'"urgency": 2', b'"urgency": ' + b"9" * 5000), "'urgency' is no string, boolean or integer"),
    (line(state="x").replace(b'"x"', b'"\xff"'), "not UTF-8"),
    (line(state="x").replace(b'"x"', b'"\\ud800"'), "not JSON"),
    (line(state="x").replace(b'"x"', b'"a\x01"'), "not JSON"),
    (line().decode().encode("utf-16"), "not UTF-8"),
    (line(state=1).replace(b'"state"', b'"expected": {"team": "tech"}, "state"'), "the line has a name twice"),
    (line(questions={"q": TEAM, "r": TEAM}, expected={"q": "a"}).replace(b'"r"', b'"q"'), "'questions' has a name"),
    (line(questions={"q": TEAM, "r": TEAM}, expected={"q": "a"}).replace(b'"r"', b'"\\u0071"'), "'questions' has a"),
    (line(expected={"team": "a", "refund": "b"}).replace(b'"refund": "b"', b'"team": "b"'), "'expected' has a name"),
    (line(tolerance={"urgency": 1, "u": 2}).replace(b'"u":', b'"urgency":'), "'tolerance' has a name twice"),
    (line().replace(b'"tech"', b'"billing"'), "'criteria' of 'team' has a name twice"),
    (line().replace(b'"criteria": {"b', b'"type": 1, "criteria": {"b'), "question 'team' has a name twice"),
    (line(state=0).replace(b"0", b"[" * 500_000 + b"]" * 500_000, 1), "nested too deeply"),
    (line().replace(b'"money"', b'{"a":' * 100_000 + b"0" + b"}" * 100_000), "nested too deeply"),
]


@pytest.mark.parametrize(
    ("malformed", "what"), MALFORMED, ids=[f"{at} {what}" for at, (_, what) in enumerate(MALFORMED)]
)
def test_a_malformed_line_is_named_and_explained(malformed: bytes, what: str) -> None:
    error = refused(lines(line(), b"", malformed, b"{"))
    assert error.line == 3
    assert str(error).startswith("line 3: ")
    assert what in str(error)


@pytest.mark.parametrize(
    "malformed",
    [
        line(state=SECRET, expected={}),
        line(state=SECRET)[:-1],
        line(state=SECRET, expected={"team": None}),
        line(state={SECRET: SECRET}, questions=0),
        line(state=SECRET).replace(b"own", b"\xff"),
        json.dumps(SECRET).encode(),
        SECRET.encode(),
    ],
)
def test_no_state_is_ever_shown(malformed: bytes) -> None:
    error = refused(malformed)
    assert "customer" not in str(error)
    assert "customer" not in repr(error.__cause__)


def test_an_id_is_shown_cut_and_printable() -> None:
    error = refused(line(questions={}, expected={"\n\x1b[2J" + "x" * 100_000: "a"}))
    assert str(error).isprintable()
    assert len(str(error)) < 200


# Objects and arrays as the runtime might get them: names repeat between levels, strings hold structure and escapes.
texts = st.text(alphabet='ab"\\{}[]:,\u00e9\n', max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)


@given(
    state=json_values, extra=json_values, criteria=st.dictionaries(texts, json_values, max_size=4), indent=st.booleans()
)
def test_any_json_travels_unchanged(state: Any, extra: Any, criteria: dict[str, Any], indent: bool) -> None:
    questions = {"q": {"type": "choice", "criteria": criteria, "extra": extra}, "r": extra}
    document = {"state": state, "questions": questions, "expected": {"q": "a"}}
    separators = (" , ", " : ") if indent else (",", ":")
    case = only_case(json.dumps(document, separators=separators, ensure_ascii=indent).encode())
    assert json.loads(case.state) == state
    assert json.loads(case.questions) == questions
    assert case.expected[0].labels == tuple(criteria)


@given(
    names=st.lists(texts, min_size=1, max_size=6),
    value=json_values,
    escape=st.booleans(),
)
def test_exactly_repeated_names_are_refused(names: list[str], value: Any, escape: bool) -> None:
    shown = json.dumps(value)
    members = ",".join(f"{json.dumps(name, ensure_ascii=escape)}:{shown}" for name in names)
    content = f'{{"state":0,"questions":{{"q":0}},"expected":{{"q":1}},"more":0,"questions2":{{{members}}}}}'
    whole = content.replace('"questions":{"q":0}', f'"questions":{{"the q":0,{members}}}').replace('"q":1', '"the q":1')
    if len(set(names)) < len(names):
        assert "name twice" in str(refused(whole.encode()))
    else:
        assert only_case(whole.encode()).expected[0].question == "the q"


@given(content=st.binary(max_size=200) | st.lists(json_values.map(json.dumps)).map("\n".join).map(str.encode))
def test_any_bytes_are_a_data_set_or_refused(content: bytes) -> None:
    with suppress(DatasetInvalid):
        assert parse_dataset(content, 3).cases


def filled(unit: bytes) -> bytes:
    """An array of as many units as fit beside the rest of a line."""
    return b"[" + unit * ((SIZE_LIMIT - 1000) // len(unit)) + b"0]"


def members(count: int) -> dict[str, int]:
    return {f"{number:06x}": 0 for number in range(count)}


READING = """
import resource, sys
from reconciler.evaluation.dataset import parse_dataset
content = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
parse_dataset(content, 5000)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""

HOSTILE = {
    "a long string": line(state="x" * (SIZE_LIMIT - 1000)),
    "a long escaped string": line(state='"' * (SIZE_LIMIT // 2 - 1000)),
    "a long number": line(state=0).replace(b"0", b"1" * (SIZE_LIMIT - 1000), 1),
    "arrays in a question": line(questions={**QUESTIONS, "q": -7}).replace(b"-7", filled(b"[],")),
    "many labels": line(questions={"q": {"type": "choice", "criteria": members(70_000)}}, expected={"q": "a"}),
    "many cases": lines(*[b'{"state":0,"questions":{"a":0},"expected":{"a":0}}'] * 20_000),
    "many lines": line() + b"\n" * (SIZE_LIMIT - 1000),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_data_sets_stay_small_in_memory(content: bytes) -> None:
    assert SIZE_LIMIT // 3 < len(content) <= SIZE_LIMIT
    read = subprocess.run([sys.executable, "-c", READING], input=content, capture_output=True, check=True, cwd=ROOT)
    assert int(read.stdout) < 60 << 20


def test_a_question_with_thousands_of_labels_is_read() -> None:
    labels = [f"label {number}" for number in range(10_000)]
    question = {"type": "choice", "criteria": labels}
    case = only_case(line(questions={"q": question, "u": URGENCY}, expected={"q": labels[-1]}))
    assert len(case.expected[0].labels) == 10_000


def test_equal_bytes_are_equal_values() -> None:
    assert parse_dataset(line(), 1) == parse_dataset(line(), 1)
    assert {each.question: each.value for each in only_case(line()).expected} == EXPECTED

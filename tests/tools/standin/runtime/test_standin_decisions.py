"""Decisions over the wire: the validator, the answers, routers, truncation, the native extras (spec 2.4, 2.7, 2.8)."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.standin.runtime.conftest import Answer, StartDaemon, StoreDirectory, call, onnx, router, wait_for
from tools.standin.runtime.daemon import Daemon
from tools.standin.runtime.errors import ApiError
from tools.standin.runtime.questions import DecisionRequest
from tools.standin.runtime.validation import validate_decision

CHARGED_TWICE = "I was charged twice for my subscription this month. Please refund the second charge."
DEPARTMENT = {
    "type": "choice",
    "criteria": {
        "billing": "billing, payments, charges, refunds",
        "technical": "technical bugs and errors",
        "sales": "pricing and plans",
        "other": "anything else",
    },
}
NOUL = {"type": "noul"}


@pytest.fixture
def daemon(store: StoreDirectory, start: StartDaemon) -> Daemon:
    store.put("laya:en", onnx())
    return start()


def systemone(
    daemon: Daemon, state: Any = "", questions: Any = None, path: str = "/v1/systemone", **more: Any
) -> Answer:
    body = {"model": "laya:en", "state": state, "questions": questions or {"q": NOUL}, **more}
    return call(f"{daemon.base_url}{path}", body)


def issues(body: dict[str, Any], *, native: bool = False) -> list[tuple[list[Any], str]]:
    with pytest.raises(ApiError) as refused:
        validate_decision(body, native=native, presets=True)
    assert refused.value.status == 422
    return [(issue["loc"], issue["type"]) for issue in refused.value.as_json()["detail"]]


def one_question(question: Any) -> list[tuple[list[Any], str]]:
    return issues({"model": "m", "state": "", "questions": {"a": question}})


def test_all_issues_are_reported_at_once(daemon: Daemon) -> None:
    questions = {"a": {"type": "box"}, "b": {"type": "choice", "criteria": {"x": None}}, "c": 1}
    answer = call(f"{daemon.base_url}/v1/systemone", {"state": 3, "questions": questions})
    assert (answer.status, answer.code) == (422, "INVALID_REQUEST")
    assert [(issue["loc"], issue["type"]) for issue in answer.json["detail"]] == [
        (["body", "model"], "missing"),
        (["body", "state"], "state_type"),
        (["body", "questions", "a"], "union_tag_invalid"),
        (["body", "questions", "b", "choice", "criteria"], "too_short"),
        (["body", "questions", "c"], "dict_type"),
    ]
    assert answer.json["error"].startswith("model: Field required; state: Input should be")
    assert "input" not in answer.json["detail"][0]


def test_the_wire_form_of_a_missing_state(daemon: Daemon) -> None:
    answer = call(f"{daemon.base_url}/v1/systemone", {"model": "laya:en", "questions": {"q": NOUL}})
    assert answer.json == {
        "error": "state: Field required",
        "code": "INVALID_REQUEST",
        "detail": [{"loc": ["body", "state"], "msg": "Field required", "type": "missing"}],
    }


@pytest.mark.parametrize(
    ("question", "where", "kind"),
    [
        ({}, [], "union_tag_not_found"),
        ({"type": None}, [], "union_tag_not_found"),
        ({"type": "choice"}, ["choice", "criteria"], "missing"),
        ({"type": "choice", "criteria": 5}, ["choice", "criteria"], "dict_type"),
        ({"type": "choice", "criteria": ["a", "a"]}, ["choice", "criteria"], "too_short"),
        ({"type": "choice", "criteria": ["a", "b", 3]}, ["choice", "criteria", 2], "string_type"),
        ({"type": "choice", "criteria": {"a": 1, "b": None}}, ["choice", "criteria", "a"], "json_type"),
        ({"type": "choice", "criteria": [str(n) for n in range(256)]}, ["choice", "criteria"], "too_long"),
        ({"type": "score"}, ["score", "criteria"], "missing"),
        ({"type": "score", "criteria": {}}, ["score", "criteria"], "list_type"),
        ({"type": "score", "criteria": ["a"]}, ["score", "criteria"], "too_short"),
        ({"type": "score", "criteria": ["a"] * 11}, ["score", "criteria"], "too_long"),
        ({"type": "score", "criteria": ["a", None]}, ["score", "criteria", 1], "json_type"),
        ({"type": "noul", "criteria": []}, ["noul", "criteria"], "dict_type"),
        ({"type": "noul", "criteria": {"true": 1}}, ["noul", "criteria", "true"], "json_type"),
        ({"type": "noul", "instructions": 4}, ["noul", "instructions"], "json_type"),
    ],
)
def test_each_rule_of_a_question(question: Any, where: list[Any], kind: str) -> None:
    assert one_question(question) == [(["body", "questions", "a", *where], kind)]


@pytest.mark.parametrize(
    ("fields", "loc", "kind"),
    [
        ({"model": ""}, ["model"], "string_too_short"),
        ({"model": 5}, ["model"], "string_type"),
        ({"questions": {}}, ["questions"], "too_short"),
        ({"questions": []}, ["questions"], "dict_type"),
        ({"questions": {str(n): NOUL for n in range(257)}}, ["questions"], "too_long"),
        ({"state": None}, ["state"], "missing"),
        ({"state": True}, ["state"], "state_type"),
        ({"keep_alive": "soon"}, ["keep_alive"], "keep_alive"),
        ({"keep_alive": True}, ["keep_alive"], "keep_alive"),
        ({"stream": True}, ["stream"], "stream_unsupported"),
        ({"stream": "no"}, ["stream"], "bool_type"),
        ({"extras": ["laya", "x"]}, ["extras", 1], "enum"),
        ({"extras": "laya"}, ["extras"], "list_type"),
        ({"images": [""]}, ["images", 0], "string_too_short"),
        ({"images": "x"}, ["images"], "list_type"),
        ({"preset": "triage"}, ["preset"], "value_error"),
    ],
)
def test_each_rule_of_a_native_body(fields: dict[str, Any], loc: list[Any], kind: str) -> None:
    body = {"model": "m", "state": "", "questions": {"q": NOUL}, **fields}
    assert issues(body, native=True) == [(["body", *loc], kind)]


def test_the_wire_ignores_native_fields(daemon: Daemon) -> None:
    assert systemone(daemon, keep_alive={"no": "sense"}, stream=True, images=3, preset=[]).status == 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
QUESTION = JSON | st.fixed_dictionaries(
    {"type": st.sampled_from(["choice", "score", "noul", "box"])}, optional={"criteria": JSON, "instructions": JSON}
)
BODY = st.fixed_dictionaries(
    {},
    optional={
        "model": JSON,
        "state": JSON,
        "questions": JSON | st.dictionaries(st.text(max_size=5), QUESTION, max_size=3),
        "keep_alive": JSON,
        "extras": JSON,
        "images": JSON,
        "preset": JSON,
        "stream": JSON,
    },
)


@given(BODY, st.booleans())
def test_any_body_is_accepted_or_refused_with_places(body: dict[str, Any], native: bool) -> None:
    outcome = outcome_of(body, native=native)
    if isinstance(outcome, ApiError):
        assert outcome.status == 422
        assert all(issue.loc[0] == "body" for issue in outcome.issues)
        return
    assert outcome.model
    assert native or outcome.state is not None
    assert all(question.options for question in outcome.questions or ())


def outcome_of(body: dict[str, Any], *, native: bool) -> DecisionRequest | ApiError:
    try:
        return validate_decision(body, native=native, presets=True)
    except ApiError as error:
        return error


def test_the_quickstart_goes_to_billing(daemon: Daemon) -> None:
    answer = systemone(daemon, CHARGED_TWICE, {"department": DEPARTMENT}).json
    assert list(answer) == ["model", "answers", "usage"]
    assert answer["usage"]["output_tokens"] == 0
    department = answer["answers"]["department"]
    assert list(department) == ["type", "choice", "confidence", "probabilities"]
    assert department["choice"] == "billing"
    assert department["probabilities"]["billing"] > 0.95
    assert list(department["probabilities"]) == list(DEPARTMENT["criteria"])
    assert systemone(daemon, CHARGED_TWICE, {"department": DEPARTMENT}, "/v1/decisions").json == answer


@pytest.mark.parametrize(
    ("scripted", "question", "expected"),
    [
        ([0.75, 0.25], {"type": "choice", "criteria": ["a", "b"]}, {"choice": "a", "confidence": 0.5}),
        ([0.7, 0.2, 0.1], {"type": "choice", "criteria": ["a", "b", "c"]}, {"choice": "a", "confidence": 0.55}),
        ([0.4, 0.3, 0.2, 0.1], {"type": "choice", "criteria": list("abcd")}, {"choice": "a", "confidence": 0.2}),
        ([0.1, 0.2, 0.7], {"type": "score", "criteria": ["l", "n", "h"]}, {"score": 1.6, "confidence": 0.55}),
        ([0.9, 0.1], NOUL, {"noul": 0.9}),
        ("b", {"type": "choice", "criteria": ["a", "b"]}, {"choice": "b", "confidence": 1.0}),
        (2, {"type": "score", "criteria": ["l", "n", "h"]}, {"score": 2.0}),
        (False, NOUL, {"noul": 0.0}),
        ({"q": True, "other": False}, NOUL, {"noul": 1.0}),
    ],
)
def test_scripted_answers_and_the_arithmetic_of_confidence(
    store: StoreDirectory, start: StartDaemon, scripted: Any, question: Any, expected: dict[str, Any]
) -> None:
    store.put("laya:en", onnx({"switches": {"answers": {"the state": scripted, '{"a":[1,"é"]}': scripted}}}))
    daemon = start()
    for state in ("the state", {"a": [1, "é"]}):
        answer = systemone(daemon, state, {"q": question}).json["answers"]["q"]
        assert expected.items() <= answer.items()


def test_a_score_shows_its_legend(daemon: Daemon) -> None:
    levels = ["calm", {"note": "annoyed"}, "furious, threatens to leave"]
    answer = systemone(daemon, "I am furious and will leave", {"q": {"type": "score", "criteria": levels}}).json
    assert list(answer["answers"]["q"]) == ["type", "score", "confidence", "legend", "probabilities"]
    assert answer["answers"]["q"]["legend"] == {"0": "calm", "1": {"note": "annoyed"}, "2": levels[2]}
    assert answer["answers"]["q"]["score"] > 1.8


@pytest.mark.parametrize(
    ("model", "status", "code"),
    [("laya@sha256:0", 422, "INVALID_REQUEST"), ("a/b/c/d:e", 422, "INVALID_REQUEST"), ("jev-latest", 404, None)],
)
def test_bad_and_unknown_names(daemon: Daemon, model: str, status: int, code: str | None) -> None:
    answer = systemone(daemon, model=model)
    assert answer.status == status
    if code is None:
        assert answer.json["error"] == 'model "jev-latest:latest" not found, try pulling it first'
    else:
        assert answer.json["detail"][0]["type"] == "model_name"


def test_built_in_questions_stand_in_for_missing_ones(store: StoreDirectory, daemon: Daemon) -> None:
    body = {"model": "laya:en", "state": "x"}
    refused = call(f"{daemon.base_url}/v1/systemone", body)
    assert [issue["loc"] for issue in refused.json["detail"]] == [["body", "questions"]]
    store.put("guard:1", onnx().add("questions", json.dumps({"safe": NOUL}).encode()))
    assert list(call(f"{daemon.base_url}/v1/systemone", {**body, "model": "guard:1"}).json["answers"]) == ["safe"]
    assert list(systemone(daemon, model="guard:1").json["answers"]) == ["q"]


def test_a_load_without_state_refuses_questions(daemon: Daemon) -> None:
    answer = call(f"{daemon.base_url}/api/decide", {"model": "laya:en", "questions": {"q": NOUL}})
    assert [(issue["loc"], issue["type"]) for issue in answer.json["detail"]] == [(["body", "state"], "missing")]


def test_a_native_answer(daemon: Daemon) -> None:
    answer = systemone(daemon, "x", path="/api/decide", extras=["laya"]).json
    assert set(answer) == {
        *("model", "answers", "usage", "routing", "state_truncated", "done_reason", "created_at"),
        *("total_duration", "load_duration", "eval_duration"),
    }
    assert (answer["done_reason"], answer["routing"], answer["state_truncated"]) == ("decide", None, False)
    assert answer["answers"]["q"]["laya"]["confidence"] >= 0.5


def test_images_are_refused_by_models_without_eyes(daemon: Daemon) -> None:
    answer = systemone(daemon, "x", path="/api/decide", images=["aGk="])
    assert answer.json["detail"][0]["type"] == "value_error"


@pytest.mark.parametrize("version", ["0.12.0", "0.7.1"])
def test_a_state_that_does_not_fit(store: StoreDirectory, start: StartDaemon, version: str) -> None:
    store.put("laya:en", onnx(context_length=8))
    daemon = start(OLLAYA_STANDIN_VERSION=version)
    answer = systemone(daemon, "word " * 9)
    if version == "0.7.1":
        assert answer.status == 200
    else:
        assert (answer.status, answer.code) == (422, "STATE_TRUNCATED")
        assert answer.json["detail"][0]["ctx"] == {"model": "laya:en"}
    assert systemone(daemon, "word " * 9, path="/api/decide").json["state_truncated"] is True
    assert systemone(daemon, "word " * 8).status == 200


def test_too_many_tokens_and_too_many_options(daemon: Daemon) -> None:
    assert systemone(daemon, "x " * 70_000, path="/api/decide").code == "INPUT_TOO_LONG"
    options = {"type": "choice", "criteria": [str(n) for n in range(200)]}
    assert systemone(daemon, "x", {"q": options}).code == "TOO_MANY_OPTIONS"


@pytest.mark.parametrize(
    ("state", "route"),
    [
        ("12345 !", "english"),
        ("Please refund the second charge", "english"),
        ("Верните деньги за подписку", "multilingual"),
        ("Bitte erstatten Sie mir diese Rechnung", "multilingual"),
    ],
)
def test_a_router_picks_by_script_and_language(
    store: StoreDirectory, start: StartDaemon, state: str, route: str
) -> None:
    store.put("laya:latest", router(english="laya:en", multilingual="laya:multilingual"))
    for name in ("laya:en", "laya:multilingual"):
        store.put(name, onnx(family=name))
    answer = systemone(start(), state, path="/api/decide", model="laya").json
    target = {"english": "laya:en", "multilingual": "laya:multilingual"}[route]
    assert answer["model"] == target
    assert {**answer["routing"], "reason": ""} == {
        "router": "laya:latest",
        "model": target,
        "route": route,
        "reason": "",
    }


def test_a_router_target_that_is_missing(store: StoreDirectory, daemon: Daemon) -> None:
    store.put("laya:latest", router(english="laya:gone"))
    answer = systemone(daemon, "the state", model="laya")
    expected = 'model "laya:gone" not found, try pulling it first (routed from "laya:latest")'
    assert (answer.status, answer.json["error"]) == (404, expected)


def test_the_queue_has_a_bound(store: StoreDirectory, start: StartDaemon) -> None:
    store.put("laya:en", onnx({"load_seconds": 30}))
    daemon = start(OLLAYA_MAX_QUEUE="1")
    first = threading.Thread(target=lambda: wait_for(lambda: systemone(daemon).status != 503))
    first.start()
    full = wait_for(lambda: refusal_of_a_full_queue(daemon))
    assert (full.code, full.headers["retry-after"]) == ("QUEUE_FULL", "1")
    daemon.stop()
    first.join()


def refusal_of_a_full_queue(daemon: Daemon) -> Answer | None:
    answer = systemone(daemon, model="none:1")
    return answer if answer.status == 503 else None

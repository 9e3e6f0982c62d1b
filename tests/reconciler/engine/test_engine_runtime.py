"""The runtime client, against a scripted runtime."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.engine.decisions import ChoiceAnswer, Enquiry, NoulAnswer, ScoreAnswer, parse_answers
from reconciler.engine.errors import (
    MalformedAnswer,
    RuntimeCallError,
    RuntimeRejected,
    RuntimeUnauthorized,
    RuntimeUnreachable,
)
from reconciler.engine.gate import LoadedModel
from reconciler.engine.runtime import ANSWER_LIMIT, DECISION_LIMIT, RuntimeClient
from tests.reconciler.engine.loopback import Loopback, http, serving

POD = "127.0.0.1"
KEY = "s3cret-key"
DIGEST = "c3" * 32
ENTRY: dict[str, Any] = {
    "name": "laya:en",
    "digest": f"sha256:{DIGEST}",
    "device": "cpu",
    "expires_at": None,
    "details": {"quantization_level": "F32", "new": 1},
    "size_vram": 0,
}
LOADED = LoadedModel(name="laya:en", digest=DIGEST, device="cpu", pinned=True, precision="F32")


def listing(*entries: Any) -> bytes:
    return json.dumps({"models": list(entries)}).encode()


async def inspected(answer: bytes | None, *, key: str | None = KEY, timeout: float = 5) -> tuple[Any, Loopback]:  # noqa: ASYNC109 - passed on
    async with serving(answer) as runtime:
        client = RuntimeClient(port=runtime.port)
        try:
            return await client.inspect(POD, key, timeout_seconds=timeout), runtime
        finally:
            await client.aclose()


def inspect(answer: bytes | None, **options: Any) -> Any:
    return asyncio.run(inspected(answer, **options))[0]


async def warmed_up(answer: bytes | None, *, key: str | None = KEY) -> Loopback:
    async with serving(answer) as runtime:
        client = RuntimeClient(port=runtime.port)
        try:
            await client.warm_up(POD, "team/laya:en", key, timeout_seconds=5)
        finally:
            await client.aclose()
        return runtime


def test_a_warm_up_loads_and_pins_with_the_key() -> None:
    runtime = asyncio.run(warmed_up(http(body=b'{"done_reason": "load", "answers": {}}')))
    (request,) = runtime.received
    assert request.line == "POST /api/decide HTTP/1.1"
    assert json.loads(request.body) == {"model": "team/laya:en", "keep_alive": -1}
    assert request.headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "body", [b'{"done_reason": "unload"}', b'{"done_reason": null}', b"{}", b"", b"Ollaya is running"]
)
def test_only_a_load_counts_as_a_warm_up(body: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        asyncio.run(warmed_up(http(body=body)))


def test_inspection_reads_what_the_gate_needs() -> None:
    (models, runtime) = asyncio.run(inspected(http(body=listing(ENTRY))))
    assert models == (LOADED,)
    assert runtime.received[0].line == "GET /api/ps HTTP/1.1"
    assert runtime.received[0].headers["Authorization"] == f"Bearer {KEY}"


def test_without_a_key_nothing_is_authorized() -> None:
    _, runtime = asyncio.run(inspected(http(body=listing()), key=None))
    assert "Authorization" not in runtime.received[0].headers


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"name": "laya:en"}, LoadedModel(name="laya:en", digest="", device="", pinned=False)),
        (
            {**ENTRY, "expires_at": "2026-01-01T00:00:00Z", "details": None},
            LoadedModel(name="laya:en", digest=DIGEST, device="cpu", pinned=False),
        ),
        (
            {**ENTRY, "expires_at": False, "digest": DIGEST},
            LoadedModel(name="laya:en", digest=DIGEST, device="cpu", pinned=False, precision="F32"),
        ),
    ],
)
def test_missing_fields_never_prove_anything(entry: dict[str, Any], expected: LoadedModel) -> None:
    assert inspect(http(body=listing(entry))) == (expected,)


@pytest.mark.parametrize("told", ["F32", "BF16", "Q8_0", "Q4_K_M", "x" * 32])
def test_a_precision_is_kept_as_it_is_told(told: str) -> None:
    (model,) = inspect(http(body=listing({**ENTRY, "details": {"quantization_level": told}})))
    assert model.precision == told


@pytest.mark.parametrize(
    "told",
    ["", "x" * 33, "x" * 200_000, "F16/F32", "F32\n", "F32 \x1b[31m", "\u0661", "<b>", KEY, f"F32-{KEY}"],
)
def test_what_is_no_precision_is_left_out_and_proves_no_less(told: str) -> None:
    (model,) = inspect(http(body=listing({**ENTRY, "details": {"quantization_level": told}})))
    assert model == replace(LOADED, precision=None)


def test_two_entries_of_one_name_both_arrive() -> None:
    assert len(inspect(http(body=listing(ENTRY, {**ENTRY, "digest": "d4" * 32})))) == 2


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>502</html>",
        b"null",
        b"[]",
        b"{}",
        b'{"models": null}',
        b'{"models": {}}',
        b'{"models": [null]}',
        b'{"models": [{"digest": "x"}]}',
        listing({**ENTRY, "name": 1}),
        listing({**ENTRY, "digest": ["x"]}),
        listing({**ENTRY, "device": {}}),
        listing({**ENTRY, "details": "F32"}),
        b'{"models": [], "x": ' + b"[" * 100_000,
        b'{"models": "\xff"}',
        gzip.compress(listing(ENTRY)),
        b" " * (ANSWER_LIMIT + 1),
    ],
)
def test_malformed_answers_end_in_a_reason(body: bytes) -> None:
    with pytest.raises(MalformedAnswer) as error:
        inspect(http(body=body))
    assert len(str(error.value)) < 300


def test_a_compressed_bomb_is_not_unpacked() -> None:
    with pytest.raises(MalformedAnswer):
        inspect(http(body=gzip.compress(b" " * 50_000_000), Content_Encoding="gzip"))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (http(401), RuntimeUnauthorized),
        (http(403), RuntimeUnauthorized),
        (http(404), RuntimeRejected),
        (http(500, b"<html>"), RuntimeRejected),
        (http(503, Retry_After="1"), RuntimeRejected),
        (b"", RuntimeUnreachable),
        (b"SSH-2.0-OpenSSH\r\n\r\n", RuntimeUnreachable),
        (http(body=listing(ENTRY))[:-5], RuntimeUnreachable),
    ],
)
def test_other_answers_have_their_own_errors(answer: bytes, error: type[RuntimeCallError]) -> None:
    with pytest.raises(error):
        inspect(answer)


def test_a_redirect_is_refused_so_that_the_key_stays() -> None:
    async def run() -> Loopback:
        async with serving(http(body=listing(ENTRY))) as elsewhere:
            with pytest.raises(RuntimeRejected, match="302"):
                await inspected(http(302, Location=elsewhere.url))
            return elsewhere

    assert asyncio.run(run()).received == []


def test_no_proxy_ever_sees_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> Loopback:
        async with serving(http(502)) as proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            monkeypatch.setenv("ALL_PROXY", proxy.url)
            models, _ = await inspected(http(body=listing(ENTRY)))
            assert models == (LOADED,)
            return proxy

    assert asyncio.run(run()).received == []


def test_a_runtime_that_hangs_is_given_up() -> None:
    with pytest.raises(RuntimeUnreachable, match=r"0\.05 s"):
        inspect(None, timeout=0.05)


def test_a_closed_port_is_unreachable() -> None:
    async def run() -> None:
        async with serving(b"") as runtime:
            port = runtime.port
        client = RuntimeClient(port=port)
        try:
            await client.inspect(POD, KEY)
        finally:
            await client.aclose()

    with pytest.raises(RuntimeUnreachable):
        asyncio.run(run())


@pytest.mark.parametrize("address", ["", "evil.example", "127.0.0.1/x", "127.0.0.1@evil", "1.2.3"])
def test_only_an_ip_is_called(address: str) -> None:
    with pytest.raises(RuntimeUnreachable):
        asyncio.run(RuntimeClient().inspect(address, KEY))


def test_the_runtimes_error_code_is_kept_and_its_text_is_not() -> None:
    body = json.dumps({"error": f"you sent {KEY}", "code": "MODEL_LOAD_FAILED"}).encode()
    with pytest.raises(RuntimeRejected, match=r"status 500 \(MODEL_LOAD_FAILED\)") as error:
        inspect(http(500, body))
    assert KEY not in str(error.value)


@pytest.mark.parametrize(
    "answer",
    [
        http(500, json.dumps({"code": KEY}).encode()),
        http(body=listing({**ENTRY, "name": [KEY]})),
        http(401, KEY.encode()),
    ],
)
def test_an_echoed_key_never_reaches_an_error(answer: bytes) -> None:
    with pytest.raises(RuntimeCallError) as error:
        inspect(answer)
    assert KEY not in repr(error.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*ENTRY, "models"]), inner, max_size=4),
    max_leaves=12,
)


bodies = (
    st.binary(max_size=60)
    | st.just(b'{"models": [Infinity]}')
    | json_values.map(lambda value: json.dumps({"models": value}).encode())
)


@settings(max_examples=20)
@given(answers=st.lists(bodies, min_size=1, max_size=20))
def test_any_body_is_read_or_refused(answers: list[bytes]) -> None:
    async def run() -> None:
        async with serving(*(http(body=body) for body in answers)) as runtime:
            client = RuntimeClient(port=runtime.port)
            for _ in answers:
                with suppress(MalformedAnswer):
                    models = await client.inspect(POD, KEY)
                    assert all(isinstance(model, LoadedModel) for model in models)
            await client.aclose()

    asyncio.run(run())


def test_inspections_wait_for_a_slot_outside_the_timeout() -> None:
    async def run() -> None:
        async with serving(None) as hanging:
            client = RuntimeClient(port=hanging.port, inspections_at_once=1)
            calls = [client.inspect(POD, KEY, timeout_seconds=0.5) for _ in range(3)]
            errors = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(error) for error in errors] == [RuntimeUnreachable] * 3
            assert len(hanging.received) == 3
            await client.aclose()

    asyncio.run(run())


QUESTIONS = b'{"refund" : {"type": "noul", "n": 1e2}}'
ENQUIRY = Enquiry("team/laya:en", b'{"b": 1.50, "a": "\\u00e9"}', QUESTIONS)
ANSWERS = {
    "team": {"type": "choice", "choice": "a", "confidence": 0.4, "probabilities": {"a": 0.7, "b": 0.3}},
    "urgency": {"type": "score", "score": 1, "legend": {"0": "low"}, "probabilities": {"0": 0.1}},
    "refund": {"type": "noul", "noul": 0.9},
    "broken": {"type": "noul", "noul": 1.1},
    "unknown": {"type": "box"},
}


async def asked(answer: bytes | None, *, key: str | None = KEY, timeout: float = 5) -> tuple[Any, Loopback]:  # noqa: ASYNC109 - passed on
    async with serving(answer) as runtime:
        client = RuntimeClient(port=runtime.port)
        try:
            return await client.ask(POD, ENQUIRY, key, timeout_seconds=timeout), runtime
        finally:
            await client.aclose()


def ask(answer: bytes | None, **options: Any) -> Any:
    return asyncio.run(asked(answer, **options))[0]


def test_a_decision_is_asked_with_the_key_and_the_texts_as_they_are() -> None:
    answers, runtime = asyncio.run(asked(http(body=json.dumps({"answers": ANSWERS}).encode())))
    (request,) = runtime.received
    assert request.line == "POST /v1/systemone HTTP/1.1"
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.body == b'{"model":"team/laya:en","state":' + ENQUIRY.state + b',"questions":' + QUESTIONS + b"}"
    assert answers == {
        "team": ChoiceAnswer("a", {"a": 0.7, "b": 0.3}),
        "urgency": ScoreAnswer(1.0, {"0": 0.1}),
        "refund": NoulAnswer(0.9),
    }


def test_a_model_name_cannot_change_the_rest_of_a_request() -> None:
    enquiry = Enquiry('x","state":"y', b'"state"', b"{}")
    assert json.loads(enquiry.body()) == {"model": 'x","state":"y', "state": "state", "questions": {}}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({}, None), ({"Retry_After": "0"}, 0), ({"Retry_After": "12"}, 12)]
    + [({"Retry_After": text}, None) for text in ("1.5", "-1", "1e3", "9" * 100, "Sun, 29 Nov 2026 12:00:00 GMT", "x")],
)
def test_a_refusal_says_its_status_code_and_when_to_ask_again(headers: dict[str, str], seconds: float | None) -> None:
    with pytest.raises(RuntimeRejected) as error:
        ask(http(503, b'{"code": "QUEUE_FULL", "error": "later"}', **headers))
    assert (error.value.status, error.value.code, error.value.retry_after_seconds) == (503, "QUEUE_FULL", seconds)


@pytest.mark.parametrize(
    "body", [b"<html>", b'{"code": "no code"}', b'{"code": 7}', b"[" * 100_000, b'{"code": "\xff"}']
)
def test_a_refusal_without_a_code_has_none(body: bytes) -> None:
    with pytest.raises(RuntimeRejected) as error:
        ask(http(503, body))
    assert (error.value.status, error.value.code) == (503, "")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"answers": null}',
        b'{"answers": []}',
        b'{"answers": {"a": 1}',
        b'{"answers": {"\xff": 1}}',
        b'{"answers": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b" " * (DECISION_LIMIT + 1),
    ],
)
def test_a_body_without_answers_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedAnswer) as error:
        ask(http(body=body))
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    "answer", [b'"\xff"', b'{"type": "choice", "choice": "\xff"}', b'{"type": "noul", "noul": 1e999}']
)
def test_one_broken_answer_is_left_out(answer: bytes) -> None:
    assert ask(http(body=b'{"answers": {"a": {"type": "noul", "noul": 1}, "b": ' + answer + b"}}")) == {
        "a": NoulAnswer(1.0)
    }


def test_a_decision_may_be_longer_than_a_list_of_models() -> None:
    labels = {f"label {number:05}": 0.0 for number in range(40_000)}
    body = json.dumps({"answers": {"q": {"type": "choice", "choice": "a", "probabilities": labels}}}).encode()
    assert ANSWER_LIMIT < len(body) < DECISION_LIMIT
    assert len(ask(http(body=body))["q"].probabilities) == 40_000


def test_a_decision_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(RuntimeUnreachable, match=r"/v1/systemone: no complete answer within 0\.05 s"):
        ask(None, timeout=0.05)


@settings(max_examples=20)
@given(documents=st.lists(json_values, min_size=1, max_size=20))
def test_any_answers_are_read_or_left_out(documents: list[Any]) -> None:
    for document in documents:
        body = json.dumps({"answers": {"q": document, "r": {"type": "noul", "noul": document}}}).encode()
        assert parse_answers(body).keys() <= {"q", "r"}

"""Runs of a data set: against scripted answers, and against the stand-in runtime with its failure switches."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from reconciler.engine.runtime import RuntimeClient
from reconciler.evaluation.dataset import Dataset, parse_dataset
from reconciler.evaluation.errors import CaseRejected, RunError, RunInvalid
from reconciler.evaluation.execution import RETRY_AFTER_LIMIT_SECONDS, Evaluator, ServingPod
from reconciler.evaluation.scores import compute_scores
from reconciler.evaluation.table import Item
from tests.fakes.waiting import until
from tests.reconciler.engine.loopback import Loopback, http, serving
from tests.reconciler.evaluation.golden_lines import QUESTIONS, line, lines
from tests.tools.standin.runtime.conftest import StoreDirectory, onnx
from tools.standin.runtime.daemon import Daemon

POD = "127.0.0.1"
KEY = "s3cret-key"
STATE = "charged twice"
RIGHT: dict[str, dict[str, Any]] = {
    "team": {"type": "choice", "choice": "billing", "probabilities": {"billing": 0.7, "tech": 0.2, "other": 0.1}},
    "refund": {"type": "noul", "noul": 0.9},
    "urgency": {"type": "score", "score": 1.6, "probabilities": {"0": 0.1, "1": 0.2, "2": 0.7}},
}
QUEUE_FULL = json.dumps({"error": "try again", "code": "QUEUE_FULL"}).encode()


def answered(answers: Any = RIGHT) -> bytes:
    return http(body=json.dumps({"model": "laya:en", "answers": answers, "usage": {}}).encode())


def refused(status: int, code: str = "SOME_CODE", **headers: str) -> bytes:
    return http(status, json.dumps({"error": f"{STATE} {KEY}", "code": code}).encode(), **headers)


def cases(count: int = 1) -> Dataset:
    return parse_dataset(lines(*[line()] * count), 5000)


@dataclass
class Time:
    """A clock that moves by a second at each look, and by every sleep."""

    now: float = 0.0
    sleeps: list[float] = field(default_factory=list)

    def clock(self) -> float:
        self.now += 1
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds


@dataclass
class Run:
    """What came of a run against a scripted runtime."""

    runtime: Loopback
    sleeps: list[float]
    items: tuple[Item, ...] = ()
    error: RunError | None = None


async def scripted_run(answers: tuple[bytes | None, ...], dataset: Dataset, key: str | None) -> Run:
    time = Time()
    async with serving(*answers) as runtime:
        run = Run(runtime, time.sleeps)
        client = RuntimeClient(port=runtime.port)
        evaluator = Evaluator(client=client, clock=time.clock, sleep=time.sleep)
        try:
            pod = ServingPod(address=POD, model="team/laya:en", api_key=key)
            run.items = await evaluator.score_revision(pod, dataset, Fraction(1, 2))
        except RunError as error:
            run.error = error
        finally:
            await client.aclose()
    return run


def run(*answers: bytes | None, dataset: Dataset | None = None, key: str | None = KEY) -> Run:
    return asyncio.run(scripted_run(answers, dataset or cases(), key))


def test_every_case_is_asked_in_order_and_scored() -> None:
    dataset = parse_dataset(lines(line(state=1.50), b"", line(state={"b": 1, "a": [None]})), 10)
    outcome = run(answered(), answered({}), dataset=dataset)
    first, second = outcome.runtime.received
    assert first.line == "POST /v1/systemone HTTP/1.1"
    assert first.headers["Authorization"] == f"Bearer {KEY}"
    assert json.loads(first.body) == {"model": "team/laya:en", "state": 1.5, "questions": QUESTIONS}
    assert b'"state":{"b": 1, "a": [null]}' in second.body
    assert [(item.line, item.question, item.correct) for item in outcome.items] == [
        (1, "team", True),
        (1, "refund", True),
        (1, "urgency", True),
        (3, "team", False),
        (3, "refund", False),
        (3, "urgency", False),
    ]
    assert {item.seconds for item in outcome.items} == {1.0}


def test_without_a_key_nothing_is_authorized() -> None:
    assert "Authorization" not in run(answered(), key=None).runtime.received[0].headers


def test_a_key_is_not_in_the_pods_representation() -> None:
    assert KEY not in repr(ServingPod(address=POD, model="laya:en", api_key=KEY))


@pytest.mark.parametrize(
    ("header", "waited"),
    [("7", 7.0), ("0", 0.0), ("86400", RETRY_AFTER_LIMIT_SECONDS), ("soon", 1.0), ("-1", 1.0), ("1e3", 1.0), ("", 1.0)],
)
def test_a_full_queue_is_tried_once_more_when_it_says(header: str, waited: float) -> None:
    outcome = run(refused(503, "QUEUE_FULL", Retry_After=header), answered())
    assert (outcome.error, outcome.sleeps, len(outcome.items)) == (None, [waited], 3)
    assert {item.seconds for item in outcome.items} == {1.0}


def test_each_case_has_a_retry_of_its_own() -> None:
    full = http(503, QUEUE_FULL)
    outcome = run(full, answered(), answered(), full, answered(), dataset=cases(3))
    assert (outcome.error, outcome.sleeps, len(outcome.items)) == (None, [1.0, 1.0], 9)


def test_a_queue_that_stays_full_ends_the_run() -> None:
    outcome = run(http(503, QUEUE_FULL), dataset=cases(3))
    assert isinstance(outcome.error, RunInvalid)
    assert len(outcome.runtime.received) == 2


def test_a_case_refused_at_the_second_attempt_is_refused() -> None:
    assert isinstance(run(http(503, QUEUE_FULL), refused(422)).error, CaseRejected)


@pytest.mark.parametrize("status", [400, 404, 405, 410, 413, 422, 451, 499])
def test_a_refused_case_is_named(status: int) -> None:
    outcome = run(answered(), refused(status, "INVALID_REQUEST"), dataset=parse_dataset(lines(line(), b"", line()), 9))
    assert isinstance(outcome.error, CaseRejected)
    assert outcome.error.line == 3
    assert f"status {status} (INVALID_REQUEST)" in str(outcome.error)
    assert outcome.sleeps == []


@pytest.mark.parametrize(
    "answer",
    [
        *(refused(status) for status in (301, 401, 403, 408, 409, 429, 500, 501, 502, 503)),
        refused(500, "QUEUE_FULL"),
        http(503, b"<html>"),
        http(302, Location="http://127.0.0.1:1"),
        b"",
        b"nonsense\r\n\r\n",
        answered()[:-4],
        http(body=b"{"),
        http(body=b"null"),
        http(body=b'{"answers": []}'),
        http(body=b'{"answers": null}'),
        http(body=b"[" * 100_000),
        http(body=b" " * (3 << 20)),
        http(body=b'{"answers": {"\xff": 1}}'),
    ],
)
def test_anything_else_says_nothing_about_the_case(answer: bytes) -> None:
    outcome = run(answered(), answer, dataset=cases(3))
    assert isinstance(outcome.error, RunInvalid)
    assert outcome.items == ()
    assert outcome.sleeps == []
    assert len(outcome.runtime.received) == 2


def test_unknown_fields_and_codes_do_not_disturb() -> None:
    answers = {question: {**answer, "new": [1]} for question, answer in RIGHT.items()}
    assert all(item.correct for item in run(answered({**answers, "more": {"type": "box"}})).items)


@pytest.mark.parametrize("answer", [refused(422), refused(500), answered({"team": STATE}), http(401, KEY.encode())])
def test_nothing_that_was_asked_or_answered_is_told(answer: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "reconciler"):
        outcome = run(answer)
    told = f"{outcome.error} {outcome.error!r} {outcome.error.__cause__ if outcome.error else ''} {caplog.text}"
    assert KEY not in told
    assert STATE not in told


def test_a_cancelled_run_leaves_nothing_behind() -> None:
    async def cancelled() -> None:
        # Leaving the server waits for the end of every connection: a forgotten one would hang here.
        async with serving(answered(), None) as runtime:
            client = RuntimeClient(port=runtime.port)
            pod = ServingPod(address=POD, model="laya:en")
            task = asyncio.create_task(Evaluator(client=client).score_revision(pod, cases(3), Fraction(0)))
            await until(lambda: len(runtime.received) == 2)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert task.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await client.aclose()

    asyncio.run(cancelled())


# From here on, the stand-in runtime.

StartPod = Callable[..., Daemon]


@pytest.fixture
def start_pod(tmp_path: Path) -> Iterator[StartPod]:
    """Start daemons that serve `laya:en`, with switches and settings; all are stopped at the end."""
    store = StoreDirectory(tmp_path / "models")
    store.put("laya:en", onnx())
    with ExitStack() as stack:

        def start(**environment: str) -> Daemon:
            settings = {"HOME": str(tmp_path), "OLLAYA_HOST": "127.0.0.1:0", **environment}
            return stack.enter_context(Daemon.from_environment(settings, store.root))

        yield start


def score(daemon: Daemon, dataset: Dataset, *, key: str | None = None, seconds: float = 30.0) -> tuple[Item, ...]:
    async def scored() -> tuple[Item, ...]:
        client = RuntimeClient(port=int(daemon.base_url.rpartition(":")[2]))
        try:
            pod = ServingPod(address=POD, model="laya:en", api_key=key)
            evaluator = Evaluator(client=client, sleep=Time().sleep, case_seconds=seconds)
            return await evaluator.score_revision(pod, dataset, Fraction(1, 2))
        finally:
            await client.aclose()

    return asyncio.run(scored())


def test_a_runtime_that_answers_as_expected_scores_in_full(start_pod: StartPod) -> None:
    right = {"team": "billing", "refund": True, "urgency": 2}
    daemon = start_pod(OLLAYA_STANDIN_ANSWERS=json.dumps({STATE: right}))
    scores = compute_scores(score(daemon, cases(3)))
    assert scores.accuracy == 1
    assert (scores.cases, scores.failed_cases, scores.calibrated) == (3, 0, 9)
    assert (scores.ece, scores.brier, scores.macro_f1) == (0.0, 0.0, 1.0)


def test_scripted_probabilities_give_the_figures_computed_by_hand(start_pod: StartPod) -> None:
    scripted = {"team": [0.2, 0.7, 0.1], "refund": [0.6, 0.4], "urgency": [0.1, 0.2, 0.7]}
    daemon = start_pod(OLLAYA_STANDIN_ANSWERS=json.dumps({STATE: scripted}))
    team, refund, urgency = score(daemon, cases())
    assert (team.predicted, team.correct, team.confidence) == ("tech", False, 0.7)
    assert (refund.predicted, refund.correct, refund.confidence) == ("true", True, 0.6)
    assert (urgency.predicted, urgency.correct, urgency.confidence) == ("1.6", True, 0.7)
    scores = compute_scores((team, refund, urgency))
    # One bin from 0.7 with confidences 0.7 and 0.7, right once; one from 0.6 with 0.6, right.
    assert scores.ece == pytest.approx((0.4 + 0.4) / 3)
    assert scores.brier == pytest.approx((0.49 + 0.16 + 0.09) / 3)


@pytest.mark.parametrize(
    ("switches", "error"),
    [
        ({"OLLAYA_STANDIN_QUEUE_FULL": "true"}, RunInvalid),
        ({"OLLAYA_STANDIN_UNAUTHORIZED": "true"}, RunInvalid),
        ({"OLLAYA_API_KEY": "another"}, RunInvalid),
        ({"OLLAYA_STANDIN_HTML_ERROR": "true"}, RunInvalid),
        ({"OLLAYA_STANDIN_INVALID_JSON": "true"}, RunInvalid),
        ({"OLLAYA_STANDIN_INFERENCE_CRASH": "true"}, RunInvalid),
        ({"OLLAYA_STANDIN_LOAD_FAILURE": "no memory"}, RunInvalid),
        ({"OLLAYA_STANDIN_TRUNCATED": "true"}, CaseRejected),
        ({"OLLAYA_STANDIN_REFUSAL": '{"status": 400, "code": "INVALID_JSON"}'}, CaseRejected),
        ({"OLLAYA_STANDIN_REFUSAL": '{"status": 429, "code": "SLOW_DOWN"}'}, RunInvalid),
    ],
    ids=str,
)
def test_failures_of_a_runtime_end_in_their_errors(
    start_pod: StartPod, switches: dict[str, str], error: type[RunError]
) -> None:
    with pytest.raises(error, match="line 1"):
        score(start_pod(**switches), cases(2), key=KEY)


def test_a_runtime_that_hangs_is_given_up(start_pod: StartPod) -> None:
    with pytest.raises(RunInvalid, match=r"line 1: .*0\.1 s"):
        score(start_pod(OLLAYA_STANDIN_HUNG="true"), cases(2), seconds=0.1)


@pytest.mark.parametrize(
    "members",
    [
        {"questions": {"q": {"type": "box"}}, "expected": {"q": "a"}},
        {"questions": {"q": {"type": "choice", "criteria": ["only"]}}, "expected": {"q": "only"}},
        {"questions": {"q": {"type": "score", "criteria": "none"}}, "expected": {"q": 1}},
        {"questions": {"q": "is it?"}, "expected": {"q": True}},
        {"state": 7},
        {"state": None},
        {"state": "word " * 70_000},
    ],
    ids=lambda members: str(members)[:60],
)
def test_what_the_runtime_does_not_understand_is_the_cases_fault(start_pod: StartPod, members: dict[str, Any]) -> None:
    dataset = parse_dataset(lines(line(), line(**members)), 10)
    with pytest.raises(CaseRejected, match=r"line 2: .*status 422 \([A-Z_]+\)"):
        score(start_pod(), dataset)

"""The official SDK, an independent client of the same wire, against the stand-in (spec section 8.1)."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from typesafe_sdk import (
    Choice,
    ChoiceAnswer,
    Noul,
    NoulAnswer,
    RetryPolicy,
    Score,
    ScoreAnswer,
    TypeSafeAuthenticationError,
    TypeSafeClient,
    TypeSafeInternalServerError,
    TypeSafeNotFoundError,
    TypeSafeUnprocessableEntityError,
)

from tests.tools.standin.runtime.conftest import StartDaemon, StoreDirectory, onnx
from tools.standin.runtime.daemon import Daemon
from tools.standin.runtime.switches import Switches

CHARGED_TWICE = "I was charged twice for my subscription this month. Please refund the second charge."
REFUND = {"refund": Noul(instructions="a refund is wanted")}
QUICK = RetryPolicy(backoff_initial=0.01, backoff_max=0.02, respect_retry_after=False)


@pytest.fixture
def daemon(store: StoreDirectory, start: StartDaemon) -> Daemon:
    store.put("laya:en", onnx({"sharpness": 3}))
    return start(OLLAYA_API_KEY="key")


@pytest.fixture
def client(daemon: Daemon) -> Iterator[TypeSafeClient]:
    client = TypeSafeClient(api_key="key", model="laya:en", base_url=daemon.base_url, compression=False, retry=QUICK)
    yield client
    client.close()


def test_all_three_kinds_of_answer(client: TypeSafeClient) -> None:
    criteria = {"billing": "billing, payments, charges, refunds", "technical": "bugs and errors", "other": None}
    levels = ["thanks", "a question", "charged twice"]
    response = client.system_one(
        {"body": CHARGED_TWICE},
        {"team": Choice(criteria=criteria), "mood": Score(criteria=levels), "refund": Noul(instructions="refund")},
    )
    assert response.model == "laya:en"
    assert response.usage.output_tokens == 0
    team, mood, refund = (response.answers[name] for name in ("team", "mood", "refund"))
    assert isinstance(team, ChoiceAnswer)
    assert team.choice == "billing"
    assert isinstance(mood, ScoreAnswer)
    assert (mood.score > 1.5, mood.legend) == (True, dict(enumerate(levels)))
    assert isinstance(refund, NoulAnswer)
    assert refund.noul > 0.5


def test_the_models_of_the_store(client: TypeSafeClient) -> None:
    assert [model.name for model in client.models.list().models] == ["laya:en"]


def test_a_wrong_key(daemon: Daemon) -> None:
    with (
        TypeSafeClient(api_key="other", model="laya:en", base_url=daemon.base_url, compression=False) as client,
        pytest.raises(TypeSafeAuthenticationError, match="API key"),
    ):
        client.system_one("x", REFUND)


def test_the_default_model_of_the_sdk_is_not_there(client: TypeSafeClient) -> None:
    with pytest.raises(TypeSafeNotFoundError, match='model "jev-latest:latest" not found'):
        client.system_one("x", REFUND, model="jev-latest")


def test_a_refused_question(client: TypeSafeClient) -> None:
    with pytest.raises(TypeSafeUnprocessableEntityError, match=r"criteria: .* at least 2"):
        client.system_one("x", {"q": Choice(criteria={"only": None})})


def test_a_full_queue_is_retried_until_there_is_room(daemon: Daemon) -> None:
    statuses: list[int] = []

    def make_room_at_the_second(response: httpx2.Response) -> None:
        statuses.append(response.status_code)
        if len(statuses) == 2:
            daemon.board.turn(Switches())

    daemon.board.turn(Switches(queue_full=True))
    with (
        httpx2.Client(event_hooks={"response": [make_room_at_the_second]}) as transport,
        TypeSafeClient(
            api_key="key",
            model="laya:en",
            base_url=daemon.base_url,
            compression=False,
            retry=QUICK,
            http_client=transport,
        ) as client,
    ):
        assert client.system_one("x", REFUND).model == "laya:en"
    assert statuses == [503, 503, 200]


def test_a_queue_that_stays_full_ends_the_retries(daemon: Daemon, client: TypeSafeClient) -> None:
    daemon.board.turn(Switches(queue_full=True))
    with pytest.raises(TypeSafeInternalServerError) as failed:
        client.system_one("x", REFUND)
    assert failed.value.status == 503

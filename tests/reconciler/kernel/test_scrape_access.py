"""Scrapers are admitted by the API server's word, and their tokens are nobody else's business."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from prometheus_client import CollectorRegistry, Counter

from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.health import BindAddress, HttpServer, Request, metrics_route
from reconciler.kernel.resources import Resource
from reconciler.kernel.scrape_access import MOST_PERMITTED, PERMITTED_SECONDS, ScrapeAccess
from tests.fakes.apiserver import FakeApiServer, Fault
from tests.fakes.waiting import until

pytestmark = pytest.mark.anyio

TOKEN = "eyJhbGciOi.J9-_secret~x+/=="
USER = {
    "username": "system:serviceaccount:monitoring:prometheus",
    "uid": "u-1",
    "groups": ["system:serviceaccounts", "system:authenticated"],
    "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"]},
}
IDENTIFIED = {"authenticated": True, "user": USER}


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def endpoint(client: KubernetesClient, clock: Clock) -> AsyncIterator[HttpServer]:
    registry = CollectorRegistry()
    Counter("things", "Things", registry=registry).inc(3)
    access = ScrapeAccess(client, clock=clock)
    server = HttpServer(BindAddress("127.0.0.1", 0), {"/metrics": metrics_route(registry)}, admit=access.admit)
    task = asyncio.create_task(server.run())
    await asyncio.wait_for(server.listening.wait(), 5)
    yield server
    task.cancel()
    await asyncio.wait([task])


async def scrape(
    endpoint: HttpServer, *authorizations: str, path: str = "/metrics", method: str = "GET"
) -> httpx2.Response:
    headers = [("Authorization", value) for value in authorizations]
    async with httpx2.AsyncClient(trust_env=False) as http:
        return await http.request(method, f"http://127.0.0.1:{endpoint.port}{path}", headers=headers)


class Reviews:
    """What the API server says of scrapers, until it is told otherwise: at first, that they may."""

    def __init__(self, server: FakeApiServer) -> None:
        self._server = server
        self._answers: dict[str, Fault] = {}
        self.answer("tokenreviews", IDENTIFIED)
        self.answer("subjectaccessreviews", {"allowed": True})

    def answer(self, plural: str, status: Any) -> None:
        self.reply(plural, 201, json.dumps({"status": status}).encode())

    def reply(self, plural: str, code: int, body: bytes) -> None:
        if plural in self._answers:
            self._server.faults.remove(self._answers[plural])
        self._answers[plural] = self._server.fail(code, matches=lambda request: plural in request.path, body=body)


@pytest.fixture
def reviews(server: FakeApiServer) -> Reviews:
    return Reviews(server)


def asked(server: FakeApiServer, plural: str) -> list[Any]:
    return [request.body["spec"] for request in server.requests if request.path.endswith(plural) and request.body]


async def test_an_account_that_may_get_metrics_is_served(
    server: FakeApiServer, reviews: Reviews, endpoint: HttpServer
) -> None:
    response = await scrape(endpoint, f"Bearer {TOKEN}")

    assert response.status_code == 200
    assert "things_total 3.0" in response.text
    assert asked(server, "tokenreviews") == [{"token": TOKEN}]
    assert asked(server, "subjectaccessreviews") == [
        {
            "user": USER["username"],
            "uid": "u-1",
            "groups": USER["groups"],
            "extra": USER["extra"],
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        }
    ]


@pytest.mark.parametrize(
    "authorizations",
    [
        (),
        ("",),
        ("Bearer",),
        ("Basic dXNlcjpwYXNz",),
        (f"Bearer {TOKEN} {TOKEN}",),
        (f"Bearer {TOKEN}", f"Bearer {TOKEN}"),
        ("Bearer {}",),
    ],
)
async def test_without_a_token_nobody_is_asked(
    server: FakeApiServer, endpoint: HttpServer, authorizations: tuple[str, ...]
) -> None:
    response = await scrape(endpoint, *authorizations)

    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert server.requests == []


@pytest.mark.parametrize(
    "status",
    [
        # As the API server puts it.
        {"user": {}, "error": "invalid bearer token"},
        {"authenticated": False, "user": USER},
        {"authenticated": True},
        {"authenticated": True, "user": {"uid": "u-1"}},
        {},
        None,
    ],
)
async def test_an_unknown_token_is_unauthorized(
    server: FakeApiServer, reviews: Reviews, endpoint: HttpServer, status: Any
) -> None:
    reviews.answer("tokenreviews", status)

    assert (await scrape(endpoint, f"Bearer {TOKEN}")).status_code == 401
    assert asked(server, "subjectaccessreviews") == []


@pytest.mark.parametrize("status", [{}, {"allowed": False}, {"allowed": True, "denied": True}])
async def test_an_account_without_the_right_is_forbidden(
    server: FakeApiServer, reviews: Reviews, endpoint: HttpServer, status: dict[str, Any]
) -> None:
    reviews.answer("subjectaccessreviews", status)

    response = await scrape(endpoint, f"Bearer {TOKEN}")

    assert response.status_code == 403
    assert "things_total" not in response.text


async def test_a_right_that_was_granted_works_at_once(
    server: FakeApiServer, reviews: Reviews, endpoint: HttpServer
) -> None:
    reviews.answer("subjectaccessreviews", {"allowed": False})
    assert (await scrape(endpoint, f"Bearer {TOKEN}")).status_code == 403

    reviews.answer("subjectaccessreviews", {"allowed": True})
    assert (await scrape(endpoint, f"Bearer {TOKEN}")).status_code == 200


async def test_a_permission_lasts_a_minute(
    server: FakeApiServer, reviews: Reviews, endpoint: HttpServer, clock: Clock
) -> None:
    assert (await scrape(endpoint, f"Bearer {TOKEN}")).status_code == 200

    reviews.answer("tokenreviews", {"authenticated": False})
    clock.seconds += PERMITTED_SECONDS - 1
    assert (await scrape(endpoint, f"bearer   {TOKEN}", method="HEAD")).status_code == 200
    clock.seconds += 1
    assert (await scrape(endpoint, f"Bearer {TOKEN}")).status_code == 401
    assert len(asked(server, "tokenreviews")) == 2


async def test_only_so_many_permissions_are_remembered(
    server: FakeApiServer, reviews: Reviews, client: KubernetesClient, clock: Clock
) -> None:
    access = ScrapeAccess(client, clock=clock)
    for number in range(MOST_PERMITTED + 1):
        await access.admit(Request("GET", "/metrics", f"token-{number}"))
    server.requests.clear()

    await access.admit(Request("GET", "/metrics", f"token-{MOST_PERMITTED}"))
    assert server.requests == []
    await access.admit(Request("GET", "/metrics", "token-0"))
    assert asked(server, "tokenreviews") == [{"token": "token-0"}]


@pytest.mark.parametrize("plural", ["tokenreviews", "subjectaccessreviews"])
@pytest.mark.parametrize("status", [403, 422])
async def test_without_the_api_servers_word_nobody_is_served(
    server: FakeApiServer,
    reviews: Reviews,
    endpoint: HttpServer,
    caplog: pytest.LogCaptureFixture,
    plural: str,
    status: int,
) -> None:
    """The answer repeats what was sent, as a proxy might; the log does not."""
    reviews.reply(plural, status, f"you sent {TOKEN}".encode())

    with caplog.at_level(logging.DEBUG):
        response = await scrape(endpoint, f"Bearer {TOKEN}")

    assert response.status_code == 503
    assert plural in caplog.text
    assert TOKEN not in caplog.text


async def test_an_unreadable_review_admits_nobody(
    server: FakeApiServer, reviews: Reviews, endpoint: HttpServer
) -> None:
    reviews.answer("tokenreviews", {"authenticated": "yes", "user": 7})

    assert (await scrape(endpoint, f"Bearer {TOKEN}")).status_code == 503


async def test_a_path_that_does_not_exist_costs_no_review(server: FakeApiServer, endpoint: HttpServer) -> None:
    assert (await scrape(endpoint, f"Bearer {TOKEN}", path="/elsewhere")).status_code == 404
    assert (await scrape(endpoint, f"Bearer {TOKEN}", method="POST")).status_code == 405
    assert server.requests == []


async def test_tokens_at_random_are_no_flood_upon_the_api_server(
    server: FakeApiServer, client: KubernetesClient
) -> None:
    """While the API server does not answer, only a few reviews are under way, whoever else asks."""
    server.hang(matches=lambda request: "tokenreviews" in request.path)
    access = ScrapeAccess(client, clock=Clock())
    requests = [Request("GET", "/metrics", f"token-{number}") for number in range(40)]
    asking = [asyncio.create_task(access.admit(request)) for request in requests]
    await until(lambda: len(asked(server, "tokenreviews")) == 4)
    assert await client.get(Resource("", "v1", "pods", "Pod"), "default", "any") is None

    assert len(asked(server, "tokenreviews")) == 4
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)


def test_a_request_does_not_show_its_token() -> None:
    assert TOKEN not in repr(Request("GET", "/metrics", TOKEN))

"""The health server against well-meant and hostile clients."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx2
import pytest
from prometheus_client import CollectorRegistry, Counter

from reconciler.kernel import health
from reconciler.kernel.health import BindAddress, BindError, HttpServer, check_route, metrics_route, parse_bind_address

pytestmark = pytest.mark.anyio


def _broken() -> health.Response:
    raise RuntimeError("inside")


@pytest.fixture
def problems() -> list[str]:
    return []


@pytest.fixture
async def endpoint(problems: list[str]) -> AsyncIterator[HttpServer]:
    registry = CollectorRegistry()
    Counter("things", "Things", registry=registry).inc(3)
    routes = {
        "/readyz": check_route(lambda: problems),
        "/metrics": metrics_route(registry),
        "/broken": _broken,
    }
    server = HttpServer(BindAddress("127.0.0.1", 0), routes)
    task = asyncio.create_task(server.run())
    await asyncio.wait_for(server.listening.wait(), 5)
    yield server
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def fetch(endpoint: HttpServer, path: str, method: str = "GET") -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False, verify=False) as client:
        return await client.request(method, f"http://127.0.0.1:{endpoint.port}{path}")


async def send_raw(endpoint: HttpServer, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(data)
    with contextlib.suppress(ConnectionError):
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        return answer
    return b""


async def test_a_check_is_well_without_problems_and_lists_them_otherwise(
    endpoint: HttpServer, problems: list[str]
) -> None:
    answer = await fetch(endpoint, "/readyz?verbose")
    assert (answer.status_code, answer.text) == (200, "ok\n")
    problems += ["pods not synced", "stopping"]
    answer = await fetch(endpoint, "/readyz")
    assert (answer.status_code, answer.text) == (503, "pods not synced\nstopping\n")


async def test_metrics_are_in_the_text_format(endpoint: HttpServer) -> None:
    answer = await fetch(endpoint, "/metrics")
    assert "things_total 3.0" in answer.text
    assert answer.headers["Content-Type"].startswith("text/plain; version=")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/elsewhere", 404), ("POST", "/readyz", 405), ("GET", "/broken", 500), ("HEAD", "/readyz", 200)],
)
async def test_everything_else_has_its_status(endpoint: HttpServer, method: str, path: str, status: int) -> None:
    assert (await fetch(endpoint, path, method)).status_code == status


async def test_head_has_no_body(endpoint: HttpServer) -> None:
    answer = await send_raw(endpoint, b"HEAD /readyz HTTP/1.1\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "data", [b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\r\n\r\n", b"GET /readyz SPDY\r\n\r\n"]
)
async def test_what_is_no_request_is_refused(endpoint: HttpServer, data: bytes) -> None:
    assert b" 400 " in await send_raw(endpoint, data)


async def test_hostile_clients_hurt_nobody(endpoint: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_REQUEST_SECONDS", 0.05)
    assert await send_raw(endpoint, b"GET /" + b"a" * 100_000) == b""
    assert await send_raw(endpoint, b"GET /readyz HT") == b""
    monkeypatch.undo()
    assert (await fetch(endpoint, "/readyz")).status_code == 200


async def test_connections_beyond_the_limit_are_closed(endpoint: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_MAX_CONNECTIONS", 1)
    _, idle = await asyncio.open_connection("127.0.0.1", endpoint.port)
    assert await send_raw(endpoint, b"GET /readyz HTTP/1.1\r\n\r\n") == b""
    idle.close()


async def test_an_address_in_use_is_told(endpoint: HttpServer) -> None:
    with pytest.raises(BindError, match="cannot listen"):
        await HttpServer(BindAddress("127.0.0.1", endpoint.port), {}).run()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0", None),
        (":8081", BindAddress("", 8081)),
        ("127.0.0.1:80", BindAddress("127.0.0.1", 80)),
        ("localhost:0", BindAddress("localhost", 0)),
        ("[::1]:9", BindAddress("::1", 9)),
    ],
)
def test_bind_addresses_are_read(text: str, address: BindAddress | None) -> None:
    assert parse_bind_address(text) == address


@pytest.mark.parametrize("text", ["", "8081", ":", "host:", ":65536", ":-1", "::1:80", "[::1]", "a b:80", ":٨"])
def test_what_is_no_bind_address_is_refused(text: str) -> None:
    with pytest.raises(BindError):
        parse_bind_address(text)

"""The health server against well-meant and hostile clients."""

import asyncio
import contextlib
import datetime as dt
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus

import httpx2
import pytest
from prometheus_client import CollectorRegistry, Counter

from reconciler.kernel import health
from reconciler.kernel.certificates import self_signed_context
from reconciler.kernel.health import (
    BindAddress,
    BindError,
    HttpServer,
    Request,
    check_route,
    metrics_route,
    parse_bind_address,
)
from tests.fakes.waiting import until

pytestmark = pytest.mark.anyio

CROWD, HONEST = "127.0.0.1", "127.0.0.2"
ASK = b"GET /readyz HTTP/1.1\r\n\r\n"


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
    async with serving(routes) as server:
        yield server


@contextlib.asynccontextmanager
async def serving(
    routes: Mapping[str, health.Route],
    tls: ssl.SSLContext | None = None,
    admit: health.Admission = health._admit_everybody,
) -> AsyncIterator[HttpServer]:
    server = HttpServer(BindAddress("127.0.0.1", 0), routes, tls=tls, admit=admit)
    task = asyncio.create_task(server.run())
    await asyncio.wait_for(server.listening.wait(), 5)
    yield server
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@dataclass(frozen=True)
class Client:
    """A connection that says nothing, not even a TLS hello, until it is made to ask."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    tls: ssl.SSLContext | None

    async def ask(self) -> bytes:
        with contextlib.suppress(ConnectionError):
            if self.tls is not None:
                await self.writer.start_tls(self.tls)
            self.writer.write(ASK)
        return await self.answer()

    async def answer(self) -> bytes:
        """What comes until the server closes."""
        with contextlib.suppress(ConnectionError), contextlib.closing(self.writer):
            return await asyncio.wait_for(self.reader.read(), 5)
        return b""


@dataclass(frozen=True)
class Port:
    """A server and how to reach it."""

    number: int
    tls: ssl.SSLContext | None

    async def open(self, address: str = CROWD) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.number, local_addr=(address, 0))
        return Client(reader, writer, self.tls)


@pytest.fixture(params=["plain", "tls"])
async def port(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Port]:
    """One on which nobody's time runs out: whatever is closed makes room."""
    monkeypatch.setattr(health, "_REQUEST_SECONDS", 60.0)
    under_tls = request.param == "tls"
    tls = self_signed_context("manager-0", dt.datetime.now(dt.UTC)) if under_tls else None
    async with serving({"/readyz": check_route(list)}, tls) as server:
        yield Port(server.port, trusting() if under_tls else None)


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


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


async def test_whoever_asks_is_answered_beside_a_crowd_that_is_silent_and_returns(port: Port) -> None:
    opened = 0

    async def return_for_ever() -> None:
        nonlocal opened
        while True:
            with contextlib.suppress(ConnectionError):
                silent = await port.open()
                opened += 1
                with contextlib.closing(silent.writer):
                    await silent.reader.read()

    async def hundred_return() -> None:
        before = opened
        await until(lambda: opened > before + 100)

    crowd = [asyncio.create_task(return_for_ever()) for _ in range(health._MAX_CONNECTIONS + 36)]
    for _ in range(3):
        await hundred_return()
        assert (await (await port.open(HONEST)).ask()).endswith(b"ok\n")
    for task in crowd:
        task.cancel()
    await asyncio.wait(crowd)


async def test_the_oldest_that_waits_makes_room_and_no_other(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_MAX_CONNECTIONS", 3)
    oldest, *others = [await port.open() for _ in range(3)]

    assert (await (await port.open()).ask()).endswith(b"ok\n")

    assert await oldest.answer() == b""
    assert [(await other.ask())[-3:] for other in others] == [b"ok\n", b"ok\n"]


async def test_a_crowd_displaces_its_own(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_MAX_CONNECTIONS", 3)
    slow = await port.open(HONEST)
    crowd = [await port.open() for _ in range(10)]
    assert [await silent.answer() for silent in crowd[:-2]] == [b""] * 8

    assert (await slow.ask()).endswith(b"ok\n")

    for silent in crowd:
        silent.writer.close()


async def test_who_is_being_answered_keeps_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_MAX_CONNECTIONS", 1)
    asked, decided = asyncio.Event(), asyncio.Event()

    async def admit(_: Request) -> HTTPStatus:
        asked.set()
        await decided.wait()
        return HTTPStatus.OK

    async with serving({"/readyz": check_route(list)}, admit=admit) as server:
        first = asyncio.create_task(send_raw(server, ASK))
        await asked.wait()
        assert await send_raw(server, ASK) == b""
        decided.set()
        assert (await first).endswith(b"ok\n")


@pytest.mark.parametrize("port", ["tls"], indirect=True)
@pytest.mark.parametrize("asking", [False, True], ids=["after the handshake", "after the answer"])
async def test_who_made_room_is_gone_without_a_goodbye(
    port: Port, monkeypatch: pytest.MonkeyPatch, *, asking: bool
) -> None:
    monkeypatch.setattr(health, "_MAX_CONNECTIONS", 1)

    def stay() -> socket.socket:
        connection = trusting().wrap_socket(socket.create_connection(("127.0.0.1", port.number), 5))
        if asking:
            connection.sendall(ASK)
            while connection.recv(4096):
                pass
        return socket.socket(fileno=connection.detach())

    def ended(connection: socket.socket) -> bool:
        connection.settimeout(5)
        while connection.recv(4096):
            pass
        return True

    with contextlib.closing(await asyncio.to_thread(stay)) as connection:
        assert (await (await port.open()).ask()).endswith(b"ok\n")
        assert await asyncio.to_thread(ended, connection)


@pytest.mark.parametrize("turns", range(6))
async def test_who_runs_out_of_time_when_another_comes_is_no_news(
    port: Port, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, turns: int
) -> None:
    monkeypatch.setattr(health, "_MAX_CONNECTIONS", 1)
    monkeypatch.setattr(health, "_REQUEST_SECONDS", 0.05)
    first = await port.open()
    await turn(10)
    with socket.create_connection(("127.0.0.1", port.number), 5):
        await turn(turns)
        # The loop stands still past the first one's deadline, with the other so many turns on its way in.
        end = time.monotonic() + 0.06
        while time.monotonic() < end:
            pass
        assert await first.answer() == b""
        await turn(10)
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def turn(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


@pytest.mark.parametrize("port", ["tls"], indirect=True)
async def test_who_leaves_with_the_handshake_is_no_news(port: Port, caplog: pytest.LogCaptureFixture) -> None:
    leaving = await port.open()
    await leaving.writer.start_tls(trusting())
    leaving.writer.close()
    assert (await (await port.open()).ask()).endswith(b"ok\n")
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


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

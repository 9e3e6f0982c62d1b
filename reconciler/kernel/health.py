"""A tiny HTTP server for `/healthz`, `/readyz` and `/metrics`, plain or under TLS.

It answers GET and HEAD on a fixed table of paths and closes the connection after each answer. Every request has a
size limit and a deadline. There is a limit on open connections, which counts from the first packet on, and a crowd of
silent ones makes room for whoever asks: nothing that reaches the port can hurt the controller, or keep the kubelet from
its answer. An ASGI server would bring routing, keep-alive and signal handling of its own, none of which belongs here.
"""

import asyncio
import logging
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import NoReturn

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from reconciler.kernel.errors import KernelError

_log = logging.getLogger(__name__)

_HEAD_LIMIT = 8192
_REQUEST_SECONDS = 5.0
_MAX_CONNECTIONS = 64
_BIND_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9.-]*)):(?P<port>[0-9]{1,5})")
# RFC 6750, section 2.1. Names and schemes are matched whatever their case.
_BEARER = re.compile(rb"authorization:[ \t]*bearer +(?P<token>[A-Za-z0-9._~+/-]+=*)[ \t]*", re.IGNORECASE)
_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked.

    Attributes:
        method: In capitals; "" when the request line is unreadable.
        path: Without the query.
        bearer_token: Of the one Authorization header, "" if there is none, several, or another kind.
    """

    method: str
    path: str
    bearer_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Response:
    """What a route answers."""

    status: HTTPStatus
    body: bytes
    content_type: str = _TEXT


Route = Callable[[], Response]
Admission = Callable[[Request], Awaitable[HTTPStatus]]
"""Decides whether a request is answered: OK, or the status to refuse it with."""
Check = Callable[[], Iterable[str]]


class BindError(KernelError):
    """A bind address cannot be read or used."""


@dataclass(frozen=True, slots=True)
class BindAddress:
    """Where to listen; an empty host means every interface, port 0 any free one."""

    host: str
    port: int


def parse_bind_address(text: str) -> BindAddress | None:
    """Read `host:port`, `:port` or `[v6]:port`; "0" switches the endpoint off and gives None.

    Raises:
        BindError: It is none of these.
    """
    if text == "0":
        return None
    match = _BIND_ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        raise BindError(f"{text!r} is no bind address: write host:port, :port, or 0 for none")
    return BindAddress(match["v6"] or match["host"] or "", int(match["port"]))


def check_route(check: Check) -> Route:
    """Make a route that is well while the check yields no problem, and lists them otherwise."""

    def answer() -> Response:
        problems = list(check())
        if problems:
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, "".join(f"{line}\n" for line in problems).encode())
        return Response(HTTPStatus.OK, b"ok\n")

    return answer


def metrics_route(registry: CollectorRegistry) -> Route:
    """Make a route that answers the registry in the text format."""
    return lambda: Response(HTTPStatus.OK, generate_latest(registry), CONTENT_TYPE_LATEST)


async def _admit_everybody(_: Request) -> HTTPStatus:
    """The default of the admission."""
    return HTTPStatus.OK


class _Places:
    """The open connections, and which of them goes when there are too many."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Timeout, str] = {}
        self._answering = 0

    def make_room(self) -> bool:
        """Tell whether there is a place for another connection; one that only waits is given up for it."""
        if len(self._waiting) + self._answering < _MAX_CONNECTIONS:
            return True
        if not self._waiting:
            return False
        # The oldest from where most come from: a crowd displaces its own, and not a kubelet or scraper beside it.
        crowds = Counter(self._waiting.values())
        given_up = max(self._waiting, key=lambda deadline: crowds[self._waiting[deadline]])
        del self._waiting[given_up]
        if not given_up.expired():
            given_up.reschedule(asyncio.get_running_loop().time())
        return True

    @asynccontextmanager
    async def waiting(self, address: str) -> AsyncIterator[None]:
        """Hold a place while it is the peer's turn.

        Raises:
            TimeoutError: The peer took too long, or had to make room.
        """
        async with asyncio.timeout(_REQUEST_SECONDS) as deadline:
            self._waiting[deadline] = address
            try:
                yield
            finally:
                self._waiting.pop(deadline, None)

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """Hold a place that is taken from nobody.

        Raises:
            TimeoutError: It took too long.
        """
        self._answering += 1
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                yield
        finally:
            self._answering -= 1


class _TlsStream(asyncio.StreamReaderProtocol):
    """A stream under TLS, where whoever says no more hears no more.

    The class above it learns of TLS after the handshake only, and with an end that came along with the handshake keeps
    the connection half open, which asyncio warns of: a line in the log for each such client.
    """

    def eof_received(self) -> bool:
        super().eof_received()
        return False


class HttpServer:
    """Serves a fixed table of routes on one address.

    Args:
        address: Where to listen.
        routes: What to answer, by path.
        tls: Serve under TLS with it; plain HTTP when None.
        admit: Asked before any route that exists is answered.
    """

    def __init__(
        self,
        address: BindAddress,
        routes: Mapping[str, Route],
        *,
        tls: ssl.SSLContext | None = None,
        admit: Admission = _admit_everybody,
    ) -> None:
        self._address = address
        self._routes = dict(routes)
        self._tls = tls
        self._admit = admit
        self._places = _Places()
        self.listening = asyncio.Event()
        self.port = 0

    async def run(self) -> NoReturn:
        """Serve until cancelled.

        Raises:
            BindError: The address cannot be listened on.
        """
        host = self._address.host or None
        try:
            # Without TLS, which each connection starts itself: asyncio tells of none before its handshake has ended.
            server = await asyncio.get_running_loop().create_server(self._stream, host, self._address.port)
        except OSError as error:
            raise BindError(f"cannot listen on {self._address.host}:{self._address.port}: {error}") from error
        async with server:
            self.port = server.sockets[0].getsockname()[1]
            self.listening.set()
            await server.serve_forever()
        raise AssertionError("serving ends by cancellation only")

    def _stream(self) -> asyncio.StreamReaderProtocol:
        protocol = asyncio.StreamReaderProtocol if self._tls is None else _TlsStream
        return protocol(asyncio.StreamReader(limit=_HEAD_LIMIT), self._connected)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._places.make_room():
                await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _log.debug("request abandoned: %r", error)
        finally:
            # Closing would wait for what the peer still takes or says, uncounted.
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        address = peer[0] if peer else ""
        async with self._places.waiting(address):
            if self._tls is not None:
                # In the first step of the task, for reading begins after it: no byte is taken for plain text.
                await writer.start_tls(self._tls, ssl_handshake_timeout=_REQUEST_SECONDS)
            head = await reader.readuntil(b"\r\n\r\n")
        async with self._places.answering():
            await self._answer(head, writer)
        async with self._places.waiting(address):
            writer.close()
            await writer.wait_closed()

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        request = _parse_request(head)
        response = await self._respond(request)
        # RFC 9110, section 15.5.2: whoever is not authenticated is told how to be.
        challenge = ("WWW-Authenticate: Bearer",) if response.status is HTTPStatus.UNAUTHORIZED else ()
        lines = (
            f"HTTP/1.1 {response.status.value} {response.status.phrase}",
            f"Content-Type: {response.content_type}",
            f"Content-Length: {len(response.body)}",
            *challenge,
            "Connection: close",
        )
        writer.write("\r\n".join([*lines, "", ""]).encode() + (b"" if request.method == "HEAD" else response.body))
        await writer.drain()

    async def _respond(self, request: Request) -> Response:
        if not request.method:
            return _plain(HTTPStatus.BAD_REQUEST)
        route = self._routes.get(request.path)
        if route is None:
            return _plain(HTTPStatus.NOT_FOUND)
        if request.method not in {"GET", "HEAD"}:
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            admission = await self._admit(request)
            return route() if admission is HTTPStatus.OK else _plain(admission)
        except Exception:  # noqa: BLE001 - a broken route must not look like a dead process
            _log.exception("%s failed", request.path)
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR)


def _parse_request(head: bytes) -> Request:
    """Read a request; its method is empty when the first line is none of HTTP/1."""
    line, *fields = head.split(b"\r\n")
    parts = line.decode("latin-1").split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        return Request("", "")
    return Request(parts[0], parts[1].partition("?")[0], _bearer_token(fields))


def _bearer_token(fields: Iterable[bytes]) -> str:
    credentials = [line for line in fields if line.lower().startswith(b"authorization:")]
    # Of several, another reader could take another one than we do.
    match = _BEARER.fullmatch(credentials[0]) if len(credentials) == 1 else None
    return match["token"].decode("ascii") if match else ""


def _plain(status: HTTPStatus) -> Response:
    return Response(status, f"{status.phrase}\n".encode())

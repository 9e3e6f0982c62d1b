"""The sockets: a thread per connection, HTTP/1.1 keep-alive, bounded bodies, and patience with an end.

A client that opens a connection and says nothing, or half of something, is dropped after `IDLE_SECONDS`; an idle
connection costs a thread and nothing else. Every response carries Content-Length, streams are chunked.
"""

from __future__ import annotations

import re
import select
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from .errors import ApiError
from .http_message import Request, Response, error_response

MOST_BODY_BYTES: Final = 8_388_608
IDLE_SECONDS: Final = 30.0
_MOST_DISCARDED_BYTES: Final = 4 * MOST_BODY_BYTES
_PIECE_BYTES: Final = 64 * 1024
_SLEEP_SECONDS: Final = 60.0

Application = Callable[[Request], Response]


class HttpServer(ThreadingHTTPServer):
    """Serves `application` on an address until `drain`."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], application: Application) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.application = application
        self._busy = 0
        self._idle = threading.Condition()
        self._connections: set[socket.socket] = set()
        super().__init__(address, _Connection)

    def server_bind(self) -> None:
        """Bind without the reverse look-up of the base class, which can take seconds in a Pod."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def start(self) -> None:
        """Serve in a thread of its own, which sleeps until a client comes or `drain` wakes it."""
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": _SLEEP_SECONDS}, daemon=True).start()

    def drain(self, seconds: float) -> None:
        """Stop accepting, give requests under way up to `seconds`, then cut every connection."""
        _cut(self.socket)  # a listening socket that is shut down wakes the thread that waits on it
        self.shutdown()
        self.server_close()
        with self._idle:
            self._idle.wait_for(lambda: self._busy == 0, seconds)
            connections = list(self._connections)
        for connection in connections:
            _cut(connection)

    def count(self, connection: socket.socket, *, busy: int = 0, is_open: bool = True) -> None:
        """Keep the books that `drain` reads."""
        with self._idle:
            self._busy += busy
            (self._connections.add if is_open else self._connections.discard)(connection)
            self._idle.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent about clients that vanish; everything else is the base class's report on stderr."""


class _Connection(BaseHTTPRequestHandler):
    """One client connection."""

    server: HttpServer
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True

    def handle(self) -> None:
        self.server.count(self.connection)
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        finally:
            self.server.count(self.connection, is_open=False)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Accept every method: which ones a path has is the application's business."""
        if name.startswith("do_"):
            return self._respond
        raise AttributeError(name)

    def _respond(self) -> None:
        self.server.count(self.connection, busy=1)
        try:
            self._send(self._response())
        finally:
            self.server.count(self.connection, busy=-1)

    def _response(self) -> Response:
        body = _OnceRead(self._read_body)
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = self.path.partition("?")[0]
        response = self.server.application(Request(self.command, path, headers, body, self._client_is_gone))
        try:
            body()  # what nobody asked for would be taken for the next request
        except ApiError:
            self.close_connection = True
        return response

    def _read_body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._bounded(self._chunks())
        length = self.headers.get("Content-Length", "0").strip()
        if not re.fullmatch(r"[0-9]{1,18}", length):
            raise ApiError("INVALID_JSON", "the Content-Length header is not a number")
        return self._bounded(self._pieces(int(length)))

    def _bounded(self, pieces: Iterable[bytes]) -> bytes:
        """Join pieces up to the limit; read somewhat further, so that the client hears the refusal."""
        body, total = bytearray(), 0
        for piece in pieces:
            total += len(piece)
            if total <= MOST_BODY_BYTES:
                body += piece
            if total > _MOST_DISCARDED_BYTES:
                break
        if total > MOST_BODY_BYTES:
            raise ApiError("REQUEST_TOO_LARGE", f"the request body is larger than {MOST_BODY_BYTES} bytes")
        return bytes(body)

    def _pieces(self, length: int) -> Iterator[bytes]:
        while length > 0:
            piece = self.rfile.read(min(length, _PIECE_BYTES))
            if not piece:
                raise ConnectionResetError("the client left in the middle of a body")
            length -= len(piece)
            yield piece

    def _chunks(self) -> Iterator[bytes]:
        while True:
            size = self.rfile.readline(_PIECE_BYTES).partition(b";")[0].strip()
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", size):
                raise ApiError("INVALID_JSON", "the chunked request body is malformed")
            if int(size, 16) == 0:
                break
            yield from self._pieces(int(size, 16))
            self.rfile.readline(_PIECE_BYTES)
        while self.rfile.readline(_PIECE_BYTES).strip():
            pass

    def _client_is_gone(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        try:
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _send(self, response: Response) -> None:
        headers = {"Content-Type": response.content_type, **response.headers, "Date": self.date_time_string()}
        if response.lines is not None:
            headers["Transfer-Encoding"] = "chunked"
        elif response.status != 204:
            headers["Content-Length"] = str(len(response.body))
        if self.close_connection:
            headers["Connection"] = "close"
        reason = self.responses.get(response.status, ("",))[0]
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        body = b"" if self.command == "HEAD" else response.body
        self.wfile.write(f"HTTP/1.1 {response.status} {reason}\r\n{head}\r\n".encode("latin-1") + body)
        if response.lines is not None:
            self._send_lines(response.lines)

    def _send_lines(self, lines: Iterator[bytes]) -> None:
        try:
            for line in lines:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                if self._client_is_gone():
                    raise ConnectionResetError("the client left a stream")
            self.wfile.write(b"0\r\n\r\n")
        finally:
            getattr(lines, "close", lambda: None)()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no HTTP in the error format of the API."""
        self.close_connection = True
        self.command = getattr(self, "command", None) or "GET"
        self._send(error_response(ApiError("INVALID_JSON", explain or message or f"malformed request ({code})")))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing: texts of requests are never logged."""


class _OnceRead:
    """A body that is taken from the socket at most once; later calls repeat the outcome."""

    def __init__(self, read: Callable[[], bytes]) -> None:
        self._read = read
        self._body: bytes | None = None
        self._refusal: ApiError | None = None

    def __call__(self) -> bytes:
        if self._refusal is not None:
            raise self._refusal
        if self._body is None:
            try:
                self._body = self._read()
            except ApiError as error:
                self._refusal = error
                raise
        return self._body


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the client was faster

"""The one place that makes HTTP clients, for answers that may come from anybody.

A client made here keeps no cookies, follows no redirect, speaks HTTP/1.1 and bounds the head of every answer. Bodies
and times are bounded by who reads them, since only they know what is honest.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from http.cookiejar import Cookie, CookieJar
from typing import Any, Final

import httpcore2
import httpx2

HEAD_LIMIT: Final = 1 << 15
"""Bytes of the head of an answer, with whatever precedes it: interim answers, and a proxy's agreement to a tunnel."""
HEADERS_LIMIT: Final = 128
"""Fields in the head of an answer; honest ones have a dozen."""

_READ_BYTES: Final = 1 << 13


def open_client(**options: Any) -> httpx2.AsyncClient:
    """Make a client that nothing of an answer outlives.

    Args:
        options: Further arguments of `httpx2.AsyncClient`.

    Raises:
        ValueError, ImportError, OSError, httpx2.InvalidURL: The options, or the environment that they let in, cannot
            be used.
    """
    client = httpx2.AsyncClient(**options, cookies=_NoCookies(), follow_redirects=False, http2=False)
    # httpx2 has no parameter for either, and a transport of one's own would switch off the environment's proxies.
    client._transport = _bounded(client._transport)  # noqa: SLF001
    client._mounts = {key: each and _bounded(each) for key, each in client._mounts.items()}  # noqa: SLF001
    return client


def _bounded(transport: httpx2.AsyncBaseTransport) -> httpx2.AsyncBaseTransport:
    if not isinstance(transport, httpx2.AsyncHTTPTransport):
        return transport  # A stand-in that a test has brought.
    pool = transport._pool  # noqa: SLF001 - as above
    pool._network_backend = _Network(pool._network_backend)  # noqa: SLF001 - as above
    return _BoundedTransport(transport)


class _NoCookies(CookieJar):
    """Reads no cookie, so that it neither keeps nor sends one, nor spends time on a thousand of them."""

    def extract_cookies(self, response: Any, request: Any) -> None: ...

    def add_cookie_header(self, request: Any) -> None: ...

    def set_cookie(self, cookie: Cookie) -> None: ...


class _Head:
    """What was read since a request began and before the head of its answer was complete."""

    def __init__(self) -> None:
        self.received = 0


_awaited_head: ContextVar[_Head | None] = ContextVar("_awaited_head", default=None)


@contextmanager
def _awaiting_head() -> Iterator[None]:
    token = _awaited_head.set(_Head())
    try:
        yield
    finally:
        _awaited_head.reset(token)


class _BoundedTransport(httpx2.AsyncBaseTransport):
    """Refuses answers with large heads before anything of them is looked at."""

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        with _awaiting_head():
            response = await self._transport.handle_async_request(request)
        if len(response.headers.raw) > HEADERS_LIMIT:
            await response.aclose()
            raise httpx2.RemoteProtocolError(f"the answer has more than {HEADERS_LIMIT} header fields")
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection that reads no more of a head than is allowed.

    The parser above asks for more only while it lacks something, so to ask beyond the limit is to exceed it.
    """

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore2's own
        head = _awaited_head.get()
        if head is None:
            return await self._stream.read(max_bytes, timeout)
        if head.received >= HEAD_LIMIT:
            raise httpcore2.RemoteProtocolError(f"the head of the answer exceeds {HEAD_LIMIT} bytes")
        data = await self._stream.read(min(max_bytes, _READ_BYTES), timeout)
        head.received += len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Network(httpcore2.AsyncNetworkBackend):
    """Opens connections whose heads are bounded."""

    def __init__(self, network: httpcore2.AsyncNetworkBackend) -> None:
        self._network = network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._network.connect_tcp(host, port, timeout, local_address, socket_options))

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)

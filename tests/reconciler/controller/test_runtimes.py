"""The runtimes that the controller's tests use bear clients that leave at any moment, as cancelled probes do."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator

import pytest

from tests.reconciler.controller.runtimes import FakeRuntime, Runtimes

pytestmark = pytest.mark.anyio

BODY = b'{"model": "laya:en"}'
REQUEST = b"POST /api/decide HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
RESET = struct.pack("ii", 1, 0)


@pytest.fixture
async def runtimes() -> AsyncIterator[Runtimes]:
    runtimes = Runtimes()
    yield runtimes
    await runtimes.close()


@pytest.mark.parametrize("sent", [0, 10, len(REQUEST) - len(BODY), len(REQUEST) - 1, len(REQUEST)])
@pytest.mark.parametrize("abruptly", [False, True])
async def test_a_client_that_leaves_is_no_fault(runtimes: Runtimes, sent: int, *, abruptly: bool) -> None:
    address = await runtimes.start(FakeRuntime(digest="a" * 64, device="cpu"))
    _, writer = await asyncio.open_connection(address, runtimes.port)
    if abruptly:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.write(REQUEST[:sent])
    await writer.drain()
    writer.close()
    # What a connection raises ends its test; it has ended once a later one was answered.
    reader, writer = await asyncio.open_connection(address, runtimes.port)
    writer.write(b"GET /api/ps HTTP/1.1\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    writer.close()

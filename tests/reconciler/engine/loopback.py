"""A scripted HTTP server on loopback, for the engine's clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Received:
    """A request as it came over the wire."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Loopback:
    """Gives each connection the next answer, and the last one from then on.

    An answer is raw bytes; none at all resets the connection, and None never answers.
    """

    answers: list[bytes | None]
    port: int = 0
    received: list[Received] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(headers.get("Content-Length", "0")))
            answer = self.answers[min(len(self.received), len(self.answers) - 1)]
            self.received.append(Received(head[0], headers, body))
            if answer is None:
                await reader.read()
            else:
                writer.write(answer)
        except (ConnectionError, asyncio.IncompleteReadError):
            """The client gave up before it had sent all of its request."""
        finally:
            writer.close()
            # The client may be gone before it has read everything.
            with suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def serving(*answers: bytes | None) -> AsyncIterator[Loopback]:
    """Serve the given answers on a free port; leaving it waits until every connection is closed."""
    loopback = Loopback(list(answers))
    connections: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.create_task(loopback.answer(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    loopback.port = server.sockets[0].getsockname()[1]
    async with server:
        yield loopback
    await asyncio.gather(*connections)


def http(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    """An answer; underscores in header names stand for dashes."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body

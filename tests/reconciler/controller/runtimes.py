"""Runtimes of Pods on loopback addresses: the two calls the prober makes, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.http_message import Request, read_request, send


@dataclass
class FakeRuntime:
    """What one Pod's runtime has, and how it behaves."""

    digest: str
    device: str
    api_key: str | None = None
    pinned: bool = True
    loaded: str | None = None
    refusal: int | None = None
    """Answer everything with this status."""
    hangs: bool = False
    """Accept a load and never answer it."""
    silent_on: frozenset[str] = frozenset()
    """Paths on which requests are accepted and never answered."""
    precision: str | None = "F32"
    on_load: Callable[[], object] = lambda: None
    """Called before a load is answered."""
    decide: Callable[[Any], tuple[int, dict[str, Any]]] = lambda _: (200, {"answers": {}})
    """Answers what a data set asks."""
    requests: list[Request] = field(default_factory=list)

    @property
    def calls(self) -> list[str]:
        """The paths that were asked, in order."""
        return [request.path for request in self.requests]

    def answer(self, request: Request) -> tuple[int, dict[str, Any]]:
        self.requests.append(request)
        if self.refusal is not None:
            return self.refusal, {"code": "REFUSED", "error": "refused"}
        if self.api_key is not None and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return 401, {"code": "UNAUTHORIZED", "error": "wrong key"}
        if request.path == "/api/decide":
            self.on_load()
            self.loaded = request.body["model"]
            return 200, {"done_reason": "load"}
        if request.path == "/v1/systemone":
            return self.decide(request.body)
        return 200, {"models": [self._entry(self.loaded)] if self.loaded else []}

    def is_silent_on(self, path: str) -> bool:
        return path in self.silent_on or (self.hangs and path == "/api/decide")

    def _entry(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "digest": f"sha256:{self.digest}",
            "device": self.device,
            "expires_at": None if self.pinned else "2026-01-01T00:05:00Z",
            "details": {"quantization_level": self.precision},
        }


class Runtimes:
    """One server per Pod address, all on one port."""

    def __init__(self) -> None:
        self.port = 0
        self.by_address: dict[str, FakeRuntime] = {}
        self.hanging = 0
        """Requests that somebody waits for and nobody will answer."""
        self._servers: dict[str, asyncio.Server] = {}
        self._taken = 0

    async def start(self, runtime: FakeRuntime) -> str:
        """Serve a runtime; returns its address, which no other one ever has."""
        self._taken += 1
        address = f"127.0.1.{self._taken}"
        self.by_address[address] = runtime

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # A client that leaves before its answer is everyday here.
            with contextlib.closing(writer), contextlib.suppress(ConnectionError):
                request = await read_request(reader)
                if request is not None and runtime.is_silent_on(request.path):
                    self.hanging += 1
                    try:
                        await reader.read()
                    finally:
                        self.hanging -= 1
                elif request is not None:
                    status, body = runtime.answer(request)
                    await send(request, writer, status, json.dumps(body).encode(), ("Connection: close",))

        server = await asyncio.start_server(connected, address, self.port)
        self.port = server.sockets[0].getsockname()[1]
        self._servers[address] = server
        return address

    async def reserve(self) -> None:
        """Find the port before anybody has to know it."""
        await self.start(FakeRuntime(digest="", device=""))

    async def stop(self, address: str) -> None:
        """Refuse connections to an address from now on."""
        server = self._servers.pop(address, None)
        if server is not None:
            server.close()
            await server.wait_closed()

    async def close(self) -> None:
        for address in list(self._servers):
            await self.stop(address)

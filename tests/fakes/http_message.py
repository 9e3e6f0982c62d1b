"""HTTP messages and request paths of the fake API server."""

import asyncio
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.fakes.apistore import ApiError, Target

_PATH = re.compile(
    r"/(?:api/(?P<core>[^/]+)|apis/(?P<group>[^/]+/[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]+))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)


@dataclass
class Request:
    """One recorded request; `status` is 0 until it was answered."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    status: int = 0

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") in {"1", "true"}

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and not self.is_watch and not parse_path(self.path).name


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Read one request, None when the client left before its end."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        content = await reader.readexactly(int(headers.get("content-length", "0")))
    except (ConnectionError, asyncio.IncompleteReadError):
        return None
    method, url, _ = first.split(" ")
    parts = urlsplit(url)
    body = json.loads(content) if content else None
    return Request(method, unquote(parts.path), dict(parse_qsl(parts.query)), headers, body)


async def send(
    request: Request,
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    extra: Iterable[str] = (),
) -> None:
    """Answer a request and note the status on it."""
    request.status = status
    head = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {len(body)}", *extra]
    writer.write("\r\n".join([*head, "", ""]).encode() + body)
    await writer.drain()


def parse_path(path: str) -> Target:
    """Read what a path names; anything that is no Kubernetes path is a 404."""
    match = _PATH.fullmatch(path)
    if match is None:
        raise ApiError(404, "NotFound", f"the server could not find the requested resource {path}")
    return Target(
        match["core"] or match["group"],
        match["plural"],
        match["namespace"] or "",
        match["name"] or "",
        match["sub"] or "",
    )

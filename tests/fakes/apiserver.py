"""A fake Kubernetes API server on a real socket, for tests of the kernel and of controllers.

It serves any resource without being told about it first: CRUD, merge patch, server-side apply, preconditions, paging,
watches with history, bookmarks and selectors. Faults are injected by the methods of `FakeApiServer`; `requests`
records what was asked.

    async with FakeApiServer() as server:
        server.put("v1", "pods", pod)
        ...
        assert not server.writes
"""

import asyncio
import base64
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.fakes.apistore import ApiError, Change, FakeStore, Object, Target
from tests.fakes.http_message import Request, parse_path, read_request, send
from tests.fakes.selectors import Selector, parse_selector

__all__ = ["FakeApiServer", "Fault", "Request"]

_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


@dataclass
class Fault:
    """An answer given instead of the real one, to requests that match, as often as `remaining` says."""

    matches: Callable[[Request], bool]
    status: int
    remaining: float
    retry_after: int | None = None
    body: bytes | None = None
    hang: bool = False
    too_late: bool = False
    """The request is carried out first: only its answer is lost."""


@dataclass(eq=False)
class _Stream:
    """An open watch: lines to send, None to end it cleanly."""

    target: Target
    selector: Selector
    lines: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    muted: bool = False

    def send(self, event_type: str, obj: Object) -> None:
        if not self.muted:
            self.lines.put_nowait(json.dumps({"type": event_type, "object": obj}).encode() + b"\n")

    def publish(self, change: Change) -> None:
        """Send a change as this stream's selector sees it."""
        if change.collection != self.target.collection:
            return
        if self.target.namespace and change.last["metadata"].get("namespace") != self.target.namespace:
            return
        before, after = self.selector.matches(change.old), self.selector.matches(change.new)
        if before or after:
            self.send({(False, True): "ADDED", (True, True): "MODIFIED"}.get((before, after), "DELETED"), change.last)


class FakeApiServer:
    """The server; also an async context manager that starts and stops it."""

    def __init__(self, *, garbage_collection: bool = True, gone_as_status: bool = False) -> None:
        self.store = FakeStore(garbage_collection=garbage_collection)
        self.store.listeners.append(self._publish)
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.gone_as_status = gone_as_status
        self.closes_watches_at_once = False
        self.token: str | None = None  # When set, requests without this bearer token get a 401.
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._streams: set[_Stream] = set()
        self._snapshots: dict[tuple[tuple[str, str], str], list[Object]] = {}
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def writes(self) -> list[Request]:
        """The recorded requests that could change something."""
        return [request for request in self.requests if request.method != "GET"]

    @property
    def watches(self) -> int:
        """Open watch streams."""
        return len(self._streams)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; after a `stop`, again on the same port and with the same objects."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port, limit=1 << 20)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse new connections and cut the open ones, as a killed server does."""
        if self._server is not None:
            self._server.close()
        for task, writer in list(self._connections.items()):
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
        self._server = None

    def write_kubeconfig(self, path: Path, bearer: str = "dummy") -> Path:
        """Write a kubeconfig that leads here."""
        config = {
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "fake", "user": {"token": bearer}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        }
        path.write_text(json.dumps(config))
        return path

    # What other actors in the cluster do.

    def put(self, api_version: str, plural: str, obj: Object) -> Object:
        """Create or replace an object, status included, past all requests."""
        metadata = obj["metadata"]
        stamped = {"apiVersion": api_version, **obj}
        return self.store.put(Target(api_version, plural, metadata.get("namespace", ""), metadata["name"]), stamped)

    def remove(self, api_version: str, plural: str, namespace: str, name: str) -> None:
        """Delete an object past all requests; finalizers hold it as usual."""
        self.store.delete(Target(api_version, plural, namespace, name))

    def objects(self, api_version: str, plural: str, namespace: str = "") -> list[Object]:
        """Return the live objects of a collection."""
        return self.store.collection(Target(api_version, plural, namespace))

    def object(self, api_version: str, plural: str, namespace: str, name: str) -> Object | None:
        """Return a live object."""
        return self.store.find(Target(api_version, plural, namespace, name))

    # Faults.

    def fail(
        self,
        status: int,
        *,
        times: float = math.inf,
        matches: Callable[[Request], bool] = lambda _: True,
        retry_after: int | None = None,
        body: bytes | None = None,
    ) -> Fault:
        """Answer matching requests with a status until `times` is used up or the fault is taken out of `faults`."""
        fault = Fault(matches, status, times, retry_after, body)
        self.faults.append(fault)
        return fault

    def lose_answer(self, *, times: float = math.inf, matches: Callable[[Request], bool] = lambda _: True) -> Fault:
        """Carry matching requests out and answer that they failed."""
        fault = Fault(matches, 500, times, too_late=True)
        self.faults.append(fault)
        return fault

    def hang(self, *, times: float = math.inf, matches: Callable[[Request], bool] = lambda _: True) -> Fault:
        """Accept matching requests and never answer them."""
        fault = Fault(matches, 0, times, hang=True)
        self.faults.append(fault)
        return fault

    def expire_history(self) -> None:
        """Forget history: watches and continue tokens from earlier versions are answered with 410."""
        self.store.version += 1
        self.store.oldest = self.store.version
        self._snapshots.clear()

    def send_bookmarks(self) -> None:
        """Send a bookmark with the current version on every open watch."""
        for stream in self._streams:
            stream.send("BOOKMARK", {"metadata": {"resourceVersion": str(self.store.version)}})

    def send_error(self, error: ApiError) -> None:
        """Send an ERROR event on every open watch and end it."""
        for stream in self._streams:
            stream.send("ERROR", error.status())
            stream.lines.put_nowait(None)

    def close_streams(self) -> None:
        """End every open watch the clean way."""
        for stream in self._streams:
            stream.lines.put_nowait(None)

    def drop_streams(self) -> None:
        """Cut every connection, watches and others, without a goodbye."""
        for writer in self._connections.values():
            writer.transport.abort()

    def mute_streams(self) -> None:
        """Leave every open watch connected but silent for ever, as behind a dead NAT entry."""
        for stream in self._streams:
            stream.muted = True

    # HTTP.

    def _publish(self, change: Change) -> None:
        for stream in self._streams:
            stream.publish(change)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        try:
            while (request := await read_request(reader)) is not None:
                self.requests.append(request)
                await self._answer(request, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The client went away, or the test ended the server: both are everyday here.
        finally:
            del self._connections[task]
            writer.close()

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fault = self._fault_for(request)
        if fault is not None and fault.hang:
            await asyncio.Event().wait()
        if fault is not None and fault.too_late:
            self._handle(request)
        if fault is not None:
            await _send_fault(request, writer, fault)
            return
        try:
            self._authenticate(request)
            if request.is_watch:
                await self._watch(request, reader, writer)
                return
            status, body = self._handle(request)
        except ApiError as error:
            status, body = error.code, error.status()
        await send(request, writer, status, json.dumps(body).encode())

    def _authenticate(self, request: Request) -> None:
        if self.token is not None and request.headers.get("authorization") != f"Bearer {self.token}":
            raise ApiError(401, "Unauthorized", "Unauthorized")

    def _fault_for(self, request: Request) -> Fault | None:
        for fault in self.faults:
            if fault.remaining > 0 and fault.matches(request):
                fault.remaining -= 1
                return fault
        return None

    def _handle(self, request: Request) -> tuple[int, Object]:
        target = parse_path(request.path)
        match request.method:
            case "GET" if target.name:
                return 200, self.store.get(target)
            case "GET":
                return 200, self._list(target, request.query)
            case "POST":
                return 201, self.store.create(target, request.body)
            case "PUT":
                return 200, self.store.replace(target, request.body)
            case "PATCH":
                return 200, self._patch(target, request)
            case "DELETE":
                options = request.body or {}
                orphan = options.get("propagationPolicy") == "Orphan"
                return 200, self.store.delete(target, options.get("preconditions"), orphan=orphan)
        raise ApiError(405, "MethodNotAllowed", request.method)

    def _patch(self, target: Target, request: Request) -> Object:
        content_type = request.headers.get("content-type")
        if content_type == "application/apply-patch+yaml":
            return self.store.apply(target, request.body, request.query["fieldManager"])
        if content_type == "application/merge-patch+json":
            return self.store.merge(target, request.body)
        raise ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {content_type}")

    def _list(self, target: Target, query: dict[str, str]) -> Object:
        """List one page; as on the real server, a resourceVersion of 0 makes the limit void."""
        version, start, objects = str(self.store.version), 0, self.store.collection(target)
        if "continue" in query:
            version, start = json.loads(base64.b64decode(query["continue"]))
            if (target.collection, version) not in self._snapshots:
                raise ApiError(410, "Expired", "The provided continue parameter is too old")
            objects = self._snapshots[target.collection, version]
        selector = parse_selector(query)
        selected = [obj for obj in objects if selector.matches(obj)]
        limit = int(query.get("limit", "0"))
        if not limit or query.get("resourceVersion") == "0":
            limit = len(selected) or 1
        metadata = {"resourceVersion": version}
        if start + limit < len(selected):
            self._snapshots[target.collection, version] = objects
            metadata["continue"] = base64.b64encode(json.dumps([version, start + limit]).encode()).decode()
        return {
            "apiVersion": target.api_version,
            "kind": "List",
            "metadata": metadata,
            "items": selected[start : start + limit],
        }

    async def _watch(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = parse_path(request.path)
        version = int(request.query.get("resourceVersion") or "0")
        gone = ApiError(410, "Expired", f"too old resource version: {version} ({self.store.oldest})")
        if version < self.store.oldest and self.gone_as_status:
            raise gone
        request.status = 200
        # As on the real server, a version from the future makes a stream that is open and silent.
        stream = _Stream(target, parse_selector(request.query), muted=version > self.store.version)
        if version < self.store.oldest:
            stream.send("ERROR", gone.status())
            stream.lines.put_nowait(None)
        else:
            for change in self.store.history:
                if change.version > version:
                    stream.publish(change)
        if self.closes_watches_at_once:
            stream.lines.put_nowait(None)
        self._streams.add(stream)
        try:
            async with asyncio.timeout(float(request.query.get("timeoutSeconds", "3600"))):
                await _send_stream(reader, writer, stream)
        except TimeoutError:
            writer.write(b"0\r\n\r\n")
        finally:
            self._streams.discard(stream)


async def _send_fault(request: Request, writer: asyncio.StreamWriter, fault: Fault) -> None:
    extra = () if fault.retry_after is None else (f"Retry-After: {fault.retry_after}",)
    error = ApiError(fault.status, _REASONS.get(fault.status, "Unknown"), f"injected {fault.status}")
    body = json.dumps(error.status()).encode() if fault.body is None else fault.body
    await send(request, writer, fault.status, body, extra)


async def _send_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: _Stream) -> None:
    """Send what the stream gets until it is ended here or the client goes away."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    gone = asyncio.create_task(reader.read(1))
    gone.add_done_callback(lambda _: stream.lines.put_nowait(None))
    try:
        while (line := await stream.lines.get()) is not None:
            writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
    finally:
        gone.cancel()
        await asyncio.wait([gone])

"""Models on disk, daemons on loopback, HTTP calls, and a small scriptable registry."""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tools.standin.runtime.clock import Clock
from tools.standin.runtime.daemon import Daemon

PREFIX = "application/vnd.ollaya."


@dataclass(frozen=True)
class Answer:
    """An HTTP answer as a client sees it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["code"])

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.body.splitlines()]


def call(
    url: str, body: Any = None, *, method: str | None = None, headers: Mapping[str, str] | None = None, raw: bytes = b""
) -> Answer:
    """Send one request on a connection of its own."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    content = raw or (None if body is None else json.dumps(body).encode())
    try:
        chosen = method or ("GET" if content is None else "POST")
        connection.request(chosen, parts.path, content, dict(headers or {}))
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


def wait_for(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Return the first true value of `condition`."""
    deadline = time.monotonic() + seconds
    while True:
        is_last = time.monotonic() >= deadline
        if value := condition():
            return value
        assert not is_last, "the condition never held"
        time.sleep(0.01)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Model:
    """The bytes of one model: its blobs by digest, and the manifest that names them."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    layers: list[dict[str, Any]] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)

    def add(self, kind: str, content: bytes, **extra: Any) -> Model:
        self.layers.append(self.descriptor(kind, content, **extra))
        return self

    def descriptor(self, kind: str, content: bytes, **extra: Any) -> dict[str, Any]:
        digest = f"sha256:{sha256(content)}"
        self.blobs[digest] = content
        return {"mediaType": PREFIX + kind, "digest": digest, "size": len(content), **extra}

    @property
    def manifest(self) -> bytes:
        config = self.descriptor("config.v1+json", json.dumps(self.config).encode())
        document = {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json"}
        return json.dumps({**document, "config": config, "layers": self.layers}, indent=2).encode()

    @property
    def digest(self) -> str:
        return sha256(self.manifest)


def onnx(decision: dict[str, Any] | None = None, **config: Any) -> Model:
    """Return an ONNX model in both precisions with the given decision parameters."""
    model = Model(config={"model_format": "onnx", "family": "laya", "parameter_size": "421M", **config})
    for precision in ("fp32", "fp16"):
        model.add("graph.onnx", precision.encode(), annotations={"org.ollaya.precision": precision})
    return model.add("decision", json.dumps(decision or {}).encode())


def router(**routes: str) -> Model:
    table = {"strategy": "script", "default": "english", "routes": routes}
    return Model(config={"model_format": "router", "family": "laya"}).add("router", json.dumps(table).encode())


class StoreDirectory:
    """A store filled by hand."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def manifest(self, name: str, host: str = "ollaya.dev") -> Path:
        model, _, tag = name.partition(":")
        return self.root / "manifests" / host / "library" / model / tag

    def put(self, name: str, model: Model, host: str = "ollaya.dev") -> Model:
        path = self.manifest(name, host)
        path.parent.mkdir(parents=True, exist_ok=True)
        (self.root / "blobs").mkdir(exist_ok=True)
        path.write_bytes(model.manifest)
        for digest, content in model.blobs.items():
            (self.root / "blobs" / digest.replace(":", "-")).write_bytes(content)
        return model


@pytest.fixture
def store(tmp_path: Path) -> StoreDirectory:
    return StoreDirectory(tmp_path / "models")


@dataclass
class ManualClock:
    """A clock that moves when told to."""

    seconds: float = 1_800_000_000.0

    def advance(self, seconds: float) -> None:
        self.seconds += seconds

    def clock(self) -> Clock:
        return Clock(lambda: self.seconds, lambda: self.seconds)


@pytest.fixture
def manual_clock() -> ManualClock:
    return ManualClock()


StartDaemon = Callable[..., Daemon]


@pytest.fixture
def start(store: StoreDirectory, tmp_path: Path) -> Iterator[StartDaemon]:
    """Start daemons on the test's store; all are stopped at the end."""
    with ExitStack() as stack:

        def start_daemon(clock: Clock | None = None, **environment: str) -> Daemon:
            defaults = {"HOME": str(tmp_path / "home")}
            return stack.enter_context(Daemon.from_environment({**defaults, **environment}, store.root, clock))

        yield start_daemon


@dataclass
class Registry:
    """A registry and a blob host in one, on a loopback port.

    `answers` scripts a path: a list of callables used up one by one, each writing the whole response; without one, the
    bytes of `files` are served, with ranges.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    scripts: dict[str, list[Callable[[BaseHTTPRequestHandler, bytes], None]]] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def publish(self, name: str, model: Model, *, with_urls: bool = True) -> Model:
        """Serve `model` under `name`; its descriptors get URLs of this registry."""
        for layer in model.layers if with_urls else []:
            layer.setdefault("urls", [f"{self.url}/blobs/{layer['digest'].replace(':', '-')}"])
        repository, _, tag = name.partition(":")
        self.files[f"/v2/library/{repository}/manifests/{tag}"] = model.manifest
        for digest, content in model.blobs.items():
            self.files[f"/v2/library/{repository}/blobs/{digest}"] = content
            self.files[f"/blobs/{digest.replace(':', '-')}"] = content
        return model

    def script(self, path: str, *answers: Callable[[BaseHTTPRequestHandler, bytes], None]) -> None:
        self.scripts[path] = list(answers)

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.requests.append((handler.path, headers))
        content = self.files.get(handler.path)
        if self.scripts.get(handler.path):
            self.scripts[handler.path].pop(0)(handler, content or b"")
        elif content is None:
            reply(404, b"<html>not here</html>")(handler, b"")
        elif "range" in headers:
            first, last = (int(number) for number in headers["range"].removeprefix("bytes=").split("-"))
            reply(206, content[first : last + 1])(handler, b"")
        else:
            reply(200, content)(handler, b"")


def reply(
    status: int, content: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Callable[[BaseHTTPRequestHandler, bytes], None]:
    """Return a script that sends `content`, or what the path holds."""

    def send(handler: BaseHTTPRequestHandler, stored: bytes) -> None:
        body = stored if content is None else content
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return send


def cut_after(count: int) -> Callable[[BaseHTTPRequestHandler, bytes], None]:
    """Return a script that promises everything and sends `count` bytes of it."""

    def send(handler: BaseHTTPRequestHandler, stored: bytes) -> None:
        reply(200, stored[:count], {"Content-Length": str(len(stored))})(handler, stored)
        handler.close_connection = True

    return send


@pytest.fixture
def registry() -> Iterator[Registry]:
    state = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                state.respond(self)
            except ConnectionError:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()

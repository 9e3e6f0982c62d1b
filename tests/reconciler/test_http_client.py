"""The product's HTTP clients, against servers that send whatever they like."""

from __future__ import annotations

import ast
import asyncio
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from lightkube.config.kubeconfig import KubeConfig

from reconciler.engine.errors import MalformedAnswer, ResolveFailed, RuntimeUnreachable
from reconciler.engine.names import ModelName
from reconciler.engine.registry import RegistryClient
from reconciler.engine.registry_policy import RegistryPolicy
from reconciler.engine.runtime import RuntimeClient
from reconciler.http_client import HEAD_LIMIT, HEADERS_LIMIT, open_client
from reconciler.kernel.connection import Configuration, open_api_client, open_watch_client
from tests.reconciler.engine.loopback import serving

ROOT = Path(__file__).parents[2]
PRODUCT = ("api", "cli", "components", "policy", "reconciler", "stacks")
BODY = b'{"models": [], "answers": {}, "done_reason": "load", "schemaVersion": 2}'


def answer(*headers: str, body: bytes = BODY, before: bytes = b"") -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return before + "\r\n".join([*lines, "", ""]).encode() + body


def cookies(count: int, size: int, first: int = 0) -> list[str]:
    return [f"Set-Cookie: c{first + number}={'x' * size}; Max-Age=31536000; Path=/" for number in range(count)]


Call = Callable[[], Awaitable[object]]


@asynccontextmanager
async def inspecting(port: int) -> AsyncIterator[Call]:
    client = RuntimeClient(port=port)
    yield lambda: client.inspect("127.0.0.1", "key")
    await client.aclose()


@asynccontextmanager
async def resolving(port: int) -> AsyncIterator[Call]:
    async def never_wait(_: float) -> None: ...

    host = f"127.0.0.1:{port}"
    policy = RegistryPolicy(registry_url=f"http://{host}", allowed=frozenset({host}), allow_insecure=True)
    client = RegistryClient(policy, sleep=never_wait)
    yield lambda: client.resolve(ModelName.parse("laya:en"))
    await client.aclose()


def kubernetes(opened: Callable[..., httpx2.AsyncClient]) -> Callable[[], httpx2.AsyncClient]:
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    chosen = KubeConfig.from_dict(
        {"current-context": "c", "clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}]}
    ).get()
    assert chosen is not None
    return lambda: opened(Configuration(chosen=chosen), "test")


CLIENTS: dict[str, Callable[[], httpx2.AsyncClient]] = {
    "runtimes": lambda: RuntimeClient()._http,
    "registries": lambda: RegistryClient(RegistryPolicy())._http,
    "api": kubernetes(open_api_client),
    "watches": kubernetes(open_watch_client),
}


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize("name", CLIENTS)
def test_no_client_keeps_or_sends_a_cookie_or_follows_to_another_place(name: str) -> None:
    async def twice() -> None:
        client = CLIENTS[name]()
        async with serving(answer(*cookies(20, 100))) as server, client:
            for _ in range(2):
                response = await client.get(f"{server.url}/api/ps")
                assert response.is_success
            assert [request.headers.get("Cookie") for request in server.received] == [None, None]
            assert not list(client.cookies.jar)
            assert not client.follow_redirects

    asyncio.run(twice())


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(
    "hostile",
    [
        answer(*cookies(100, 800)),
        answer(f"X-Long: {'x' * 2 * HEAD_LIMIT}"),
        answer(*["A: b"] * HEADERS_LIMIT),
        answer(before=b"HTTP/1.1 103 Early\r\n\r\n" * (HEAD_LIMIT // 10)),
        answer(before=b"\r\n" * HEAD_LIMIT),
    ],
    ids=["cookies", "long", "many", "interim", "blank"],
)
def test_every_client_refuses_a_large_head(name: str, hostile: bytes) -> None:
    async def once() -> None:
        async with serving(hostile) as server, CLIENTS[name]() as client:
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.get(f"{server.url}/api/ps")

    asyncio.run(once())


def test_a_head_of_honest_size_arrives_whole() -> None:
    async def once() -> None:
        headers = [f"X-Field-{number}: {'x' * 200}" for number in range(HEADERS_LIMIT - 10)]
        async with serving(answer(*headers, body=b"x" * 100_000)) as server, open_client(trust_env=False) as client:
            response = await client.get(server.url)
            assert len(response.content) == 100_000
            assert response.headers["X-Field-7"] == "x" * 200

    asyncio.run(once())


@pytest.mark.parametrize(
    "agreement", [b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * HEAD_LIMIT + b"\r\n", b"\r\n" * HEAD_LIMIT]
)
def test_a_proxy_is_bounded_as_well(agreement: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def once() -> None:
        async with serving(agreement) as proxy:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url)
            async with open_client(trust_env=True) as client:
                with pytest.raises(httpx2.RemoteProtocolError):
                    await client.get("https://registry.example/v2/")
            assert proxy.received[0].line.startswith("CONNECT ")

    asyncio.run(once())


async def longest_pause(work: Awaitable[None]) -> float:
    """Seconds of CPU for which the loop was not free at most, while `work` went on: other processes do not count."""
    longest, ended = 0.0, asyncio.ensure_future(work)
    while not ended.done():
        before = time.thread_time()
        await asyncio.sleep(0.001)
        longest = max(longest, time.thread_time() - before)
    await ended
    return longest


@pytest.mark.parametrize(("opened", "size"), [(inspecting, 200), (inspecting, 800), (resolving, 200)])
def test_a_hundred_calls_leave_nothing_and_keep_the_loop_free(
    opened: Callable[[int], AbstractAsyncContextManager[Call]], size: int
) -> None:
    async def hundred(call: Call) -> None:
        for _ in range(100):
            with suppress(RuntimeUnreachable, ResolveFailed):
                await call()

    async def run() -> tuple[int, float]:
        answers = [answer(*cookies(100, size, first)) for first in range(0, 20_000, 100)]
        async with serving(*answers) as server, opened(server.port) as call:
            await hundred(call)
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            await hundred(call)
            grown = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
            return grown, await longest_pause(hundred(call))

    grown, pause = asyncio.run(run())
    assert grown < 1 << 20
    assert pause < 0.25


def test_an_answer_in_crumbs_is_refused_and_keeps_the_loop_free() -> None:
    crumbs = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 200_000 + b"0\r\n\r\n"

    async def inspected(port: int) -> None:
        client = RuntimeClient(port=port)
        with pytest.raises(MalformedAnswer):
            await client.inspect("127.0.0.1", None)
        await client.aclose()

    async def run() -> float:
        async with serving(crumbs) as server:
            return await longest_pause(inspected(server.port))

    assert asyncio.run(run()) < 0.25


# What else could open a connection. Buckets are asked through botocore, which keeps no cookies.
OTHER_LIBRARIES = {"aiohttp", "http.client", "requests", "urllib.request", "urllib3"}
CONSTRUCTORS = {"AsyncClient", "AsyncHTTPTransport", "Client", "HTTPTransport"}
MOMENTARY = {"delete", "get", "post", "put", "request", "stream"}


def opened_in(path: Path) -> set[str]:
    """What a module opens connections with; a class that is only named, as in an annotation, opens none."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found |= {each.name for each in names} & OTHER_LIBRARIES
            case ast.ImportFrom(module=str(module), names=names):
                found |= {module} & OTHER_LIBRARIES
                if module.partition(".")[0] in {"httpcore2", "httpx2", "lightkube"}:
                    found |= {each.name for each in names} & (CONSTRUCTORS | MOMENTARY)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="httpx2"), attr=name)):
                found |= {name} & (CONSTRUCTORS | MOMENTARY)
            case ast.ClassDef(bases=bases):
                found |= {ast.unparse(base).rpartition(".")[2] for base in bases} & CONSTRUCTORS
    return found


def test_no_other_place_makes_a_client() -> None:
    sources = [path for part in PRODUCT for path in (ROOT / part).rglob("*.py")] + [ROOT / "__main__.py"]
    assert len(sources) > 200
    opened = {str(path.relative_to(ROOT)): found for path in sources if (found := opened_in(path))}
    assert opened == {"reconciler/http_client.py": {"AsyncClient"}}

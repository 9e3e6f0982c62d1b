"""Resolving tags over HTTP, against a scripted registry."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable

import pytest

from reconciler.engine.errors import (
    ProxyUnusable,
    RegistryNotAllowed,
    ResolveError,
    ResolveFailed,
    TagNotFound,
    TrustUnusable,
)
from reconciler.engine.names import ModelName
from reconciler.engine.registry import MANIFEST_LIMIT, RegistryClient, ResolvedManifest
from reconciler.engine.registry_policy import RegistryPolicy
from tests.reconciler.engine.loopback import Loopback, http, serving

MANIFEST = json.dumps({"schemaVersion": 2, "layers": []}, indent=2).encode()
NAME = ModelName.parse("team/laya:en")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class Resolution:
    """One `resolve` of `team/laya:en` against scripted answers, with pauses recorded instead of waited for."""

    def __init__(self, *answers: bytes | None, attempt_seconds: float = 10) -> None:
        self.pauses: list[float] = []
        self.durations: list[float] = []
        self.outcome = asyncio.run(self._run(answers, attempt_seconds))

    async def _run(self, answers: tuple[bytes | None, ...], attempt_seconds: float) -> ResolvedManifest | ResolveError:
        async with serving(*answers) as self.registry:
            host = self.registry.url.removeprefix("http://")
            policy = RegistryPolicy(registry_url=self.registry.url, allowed=frozenset({host}), allow_insecure=True)
            client = RegistryClient(
                policy, attempt_seconds=attempt_seconds, observe=self.durations.append, sleep=self._pause
            )
            try:
                return await client.resolve(NAME)
            except ResolveError as error:
                return error
            finally:
                await client.aclose()

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    @property
    def requests(self) -> int:
        return len(self.registry.received)


def test_the_digest_is_the_hash_of_the_exact_bytes() -> None:
    resolution = Resolution(http(body=MANIFEST, Docker_Content_Digest="sha256:0"))
    assert resolution.outcome == ResolvedManifest(digest=hashlib.sha256(MANIFEST).hexdigest(), content=MANIFEST)
    assert (resolution.requests, resolution.pauses, len(resolution.durations)) == (1, [], 1)


def test_the_request_carries_nothing_but_the_host() -> None:
    (request,) = Resolution(http(body=MANIFEST)).registry.received
    assert request.line == "GET /v2/team/laya/manifests/en HTTP/1.1"
    assert {name.lower() for name in request.headers} == {"host"}


def test_not_found_is_final_and_decided_before_the_body() -> None:
    endless = b"HTTP/1.1 404 X\r\nContent-Length: 99999999\r\n\r\n"
    resolution = Resolution(endless)
    assert isinstance(resolution.outcome, TagNotFound)
    assert (resolution.requests, resolution.pauses) == (1, [])


@pytest.mark.parametrize(
    "obstacle", [http(429), http(500), http(503), b"", b"nonsense\r\n\r\n", http(body=MANIFEST)[:-9]]
)
def test_obstacles_are_tried_three_times(obstacle: bytes) -> None:
    failed = Resolution(obstacle)
    assert isinstance(failed.outcome, ResolveFailed)
    assert (failed.requests, failed.pauses) == (3, [0.1, 0.4])
    overcome = Resolution(obstacle, obstacle, http(body=MANIFEST))
    assert isinstance(overcome.outcome, ResolvedManifest)
    assert len(overcome.durations) == 1


@pytest.mark.parametrize(
    ("retry_after", "pause"), [("7", 7.1), ("9999999999999", 30.1), ("-1", 0.1), ("soon", 0.1), ("²", 0.1)]
)
def test_a_requested_pause_comes_on_top_and_has_a_limit(retry_after: str, pause: float) -> None:
    resolution = Resolution(http(503, Retry_After=retry_after), http(body=MANIFEST))
    assert resolution.pauses == [pytest.approx(pause)]


@pytest.mark.parametrize("status", [204, 304, 400, 401, 403, 410])
def test_other_answers_are_final(status: int) -> None:
    resolution = Resolution(http(status))
    assert isinstance(resolution.outcome, ResolveFailed)
    assert resolution.requests == 1


def test_a_registry_that_never_answers_is_given_up() -> None:
    resolution = Resolution(None, attempt_seconds=0.05)
    assert isinstance(resolution.outcome, ResolveFailed)
    assert "0.05 s" in str(resolution.outcome)
    assert resolution.requests == 3


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"schemaVersion": 1}',
        b'{"schemaVersion": "2"}',
        b'{"schemaVersion": 2.0}',
        MANIFEST + b"x",
        b"\xff\xfe",
        b'{"a":' + b"[" * 100_000,
    ],
)
def test_what_is_no_manifest_is_refused(body: bytes) -> None:
    resolution = Resolution(http(body=body))
    assert isinstance(resolution.outcome, ResolveFailed)
    assert len(str(resolution.outcome)) < 500
    assert resolution.requests == 1


def padded(size: int) -> bytes:
    return MANIFEST + b" " * (size - len(MANIFEST))


def test_manifests_end_at_one_mebibyte() -> None:
    assert isinstance(Resolution(http(body=padded(MANIFEST_LIMIT))).outcome, ResolvedManifest)
    refused = Resolution(http(body=padded(MANIFEST_LIMIT + 1)))
    assert isinstance(refused.outcome, ResolveFailed)
    assert "exceeds" in str(refused.outcome)


def test_redirects_within_the_registry_are_followed() -> None:
    resolution = Resolution(http(307, Location="/elsewhere"), http(302, Location="further"), http(body=MANIFEST))
    assert isinstance(resolution.outcome, ResolvedManifest)
    assert [request.line.split()[1] for request in resolution.registry.received][1:] == ["/elsewhere", "/further"]


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.2/x",
        "https://127.0.0.1/x",
        "http://127.0.0.1:1/x",
        "//evil.example/x",
        "file:///etc/passwd",
        "http://user:pw@127.0.0.1/x",
        "http://[",
    ],
)
def test_redirects_never_leave_the_registry(location: str) -> None:
    resolution = Resolution(http(302, Location=location))
    assert isinstance(resolution.outcome, ResolveFailed)
    assert resolution.requests == 1


def test_credentials_in_a_redirect_are_refused() -> None:
    async def run() -> tuple[Loopback, str]:
        async with serving(http()) as registry:
            registry.answers[0] = http(302, Location=f"http://user:pw@127.0.0.1:{registry.port}/x")
            policy = RegistryPolicy(
                registry_url=registry.url, allowed=frozenset({f"127.0.0.1:{registry.port}"}), allow_insecure=True
            )
            client = RegistryClient(policy)
            with pytest.raises(ResolveFailed) as refusal:
                await client.resolve(NAME)
            await client.aclose()
            return registry, str(refusal.value)

    registry, message = asyncio.run(run())
    assert len(registry.received) == 1
    assert "pw" not in message


@pytest.mark.parametrize(("hops", "reached"), [(10, True), (11, False)])
def test_ten_redirects_are_enough(hops: int, reached: bool) -> None:
    resolution = Resolution(*[http(302, Location="/next")] * hops, http(body=MANIFEST))
    assert isinstance(resolution.outcome, ResolvedManifest) is reached


def test_nothing_is_sent_to_a_registry_that_is_not_allowed() -> None:
    durations: list[float] = []

    async def run() -> Loopback:
        async with serving(http(body=MANIFEST)) as registry:
            client = RegistryClient(RegistryPolicy(registry_url=registry.url), observe=durations.append)
            with pytest.raises(RegistryNotAllowed):
                await client.resolve(NAME)
            return registry

    assert asyncio.run(run()).received == []
    assert durations == []


@pytest.mark.parametrize("answer", [http(body=MANIFEST), http(404), http(401)])
def test_every_call_is_measured_once(answer: bytes) -> None:
    ticks = iter([100.0, 102.5])
    durations: list[float] = []
    observe: Callable[[float], None] = durations.append

    async def run() -> None:
        async with serving(answer) as registry:
            policy = RegistryPolicy(
                registry_url=registry.url, allowed=frozenset({f"127.0.0.1:{registry.port}"}), allow_insecure=True
            )
            client = RegistryClient(policy, observe=observe, clock=lambda: next(ticks))
            try:
                await client.resolve(NAME)
            except ResolveError:
                pass
            finally:
                await client.aclose()

    asyncio.run(run())
    assert durations == [2.5]


def test_proxies_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> tuple[ResolvedManifest, Loopback]:
        async with serving(http(body=MANIFEST)) as proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            policy = RegistryPolicy(
                registry_url="http://registry.invalid", allowed=frozenset({"registry.invalid"}), allow_insecure=True
            )
            client = RegistryClient(policy)
            try:
                return await client.resolve(NAME), proxy
            finally:
                await client.aclose()

    resolved, proxy = asyncio.run(run())
    assert resolved.content == MANIFEST
    assert proxy.received[0].line.startswith("GET http://registry.invalid/v2/")


@pytest.mark.parametrize("proxy", ["socks5://secret@proxy:1080", "http://secret@proxy:port", "ftp://secret@proxy"])
def test_a_proxy_that_cannot_be_used_is_said_without_what_it_may_hold(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(ProxyUnusable, match="HTTPS_PROXY") as raised:
        RegistryClient(RegistryPolicy())
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(("path", "reason"), [("missing", "No such file"), ("/dev/null", "no certificate")])
def test_authorities_that_cannot_be_read_are_said_with_the_variable(
    monkeypatch: pytest.MonkeyPatch, path: str, reason: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", path)
    with pytest.raises(TrustUnusable, match=f"SSL_CERT_FILE.*{reason}.*unset it"):
        RegistryClient(RegistryPolicy())

"""Resolving a tag to the digest of its manifest (spec sections 2.3 and 2.4)."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import httpx2
import msgspec

from reconciler.engine.bodies import BodyTooLarge, read_body
from reconciler.engine.errors import ProxyUnusable, ResolveFailed, TagNotFound, TrustUnusable
from reconciler.engine.names import ModelName
from reconciler.engine.registry_policy import RegistryPolicy, check_allowed
from reconciler.http_client import open_client

MANIFEST_LIMIT: Final = 1 << 20
"""Bytes of a manifest; real ones have a few thousand."""

_ATTEMPT_SECONDS: Final = 10.0
_PAUSES_SECONDS: Final = (0.1, 0.4)
"""Before the second and the third attempt."""
_LONGEST_RETRY_AFTER_SECONDS: Final = 30
_MAXIMUM_REDIRECTS: Final = 10
_TIMEOUTS: Final = httpx2.Timeout(connect=10.0, read=30.0, write=10.0, pool=10.0)
# A connection is for one request: what else a registry has put on it can be no other model's answer.
_LIMITS: Final = httpx2.Limits(max_connections=100, max_keepalive_connections=0)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_LONGEST_QUOTE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedManifest:
    """What a tag stands for right now."""

    digest: str
    """Lower-case hex SHA-256 of `content`."""
    content: bytes
    """The manifest, byte for byte."""


class _Manifest(msgspec.Struct, rename={"schema_version": "schemaVersion"}):
    schema_version: int


class _Obstacle(Exception):  # noqa: N818 - never leaves this module: another attempt may overcome it
    """A failed attempt that is worth another one."""

    def __init__(self, what: str, *, retry_after: int = 0) -> None:
        super().__init__(what)
        self.retry_after = retry_after


class RegistryClient:
    """Asks registries for manifests, within a policy.

    Requests carry no header but `Host`, so no credential can leave with them. Proxies come from the environment.

    Args:
        policy: The registries it may call.
        attempt_seconds: Limit of one attempt, redirects and body included.
        observe: Called once per `resolve` that reached the network, with its duration in seconds.
        sleep: Waits between attempts.
        clock: Seconds of a clock that never goes back.
        route: Puts another client in the place of the one that goes straight to a registry.

    Raises:
        ProxyUnusable: The environment names a proxy that the HTTP client cannot use.
        TrustUnusable: The environment names certificate authorities that cannot be read.
    """

    def __init__(  # noqa: PLR0913 - what it does its work with
        self,
        policy: RegistryPolicy,
        *,
        attempt_seconds: float = _ATTEMPT_SECONDS,
        observe: Callable[[float], None] = lambda _seconds: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        route: Callable[[httpx2.AsyncClient], httpx2.AsyncClient] = lambda client: client,
    ) -> None:
        self._policy = policy
        self._attempt_seconds = attempt_seconds
        self._observe = observe
        self._sleep = sleep
        self._clock = clock
        try:
            self._http = route(open_client(timeout=_TIMEOUTS, limits=_LIMITS, trust_env=True))
        except (ImportError, ValueError, httpx2.InvalidURL):
            raise ProxyUnusable from None
        except OSError as error:
            raise TrustUnusable(error.strerror or str(error)) from None

    async def aclose(self) -> None:
        """Release the client's resources."""
        await self._http.aclose()

    async def resolve(self, name: ModelName) -> ResolvedManifest:
        """Fetch the manifest that `name` stands for.

        Raises:
            RegistryNotAllowed: The policy forbids the registry; nothing was sent.
            TagNotFound: The registry has no such tag.
            ResolveFailed: Any other obstacle, after the retries that make sense for it.
        """
        base_url = check_allowed(name, self._policy).base_url
        url = httpx2.URL(f"{base_url}/v2/{name.namespace}/{name.model}/manifests/{name.tag}")
        started = self._clock()
        try:
            content = await self._fetch_with_retries(url)
        finally:
            self._observe(self._clock() - started)
        _check_manifest(url, content)
        return ResolvedManifest(digest=hashlib.sha256(content).hexdigest(), content=content)

    async def _fetch_with_retries(self, url: httpx2.URL) -> bytes:
        for pause in _PAUSES_SECONDS:
            try:
                return await self._attempt(url)
            except _Obstacle as obstacle:
                await self._sleep(pause + obstacle.retry_after)
        try:
            return await self._attempt(url)
        except _Obstacle as obstacle:
            attempts = len(_PAUSES_SECONDS) + 1
            raise ResolveFailed(f"{url}: {obstacle}, in the last of {attempts} attempts") from obstacle

    async def _attempt(self, url: httpx2.URL) -> bytes:
        try:
            async with asyncio.timeout(self._attempt_seconds):
                return await self._follow(url)
        except TimeoutError:
            raise _Obstacle(f"no complete answer within {self._attempt_seconds:g} s") from None
        except httpx2.TransportError as error:
            raise _Obstacle(f"{type(error).__name__}: {error}"[:_LONGEST_QUOTE]) from error

    async def _follow(self, url: httpx2.URL) -> bytes:
        target = url
        for _ in range(_MAXIMUM_REDIRECTS + 1):
            answer = await self._get(target)
            if isinstance(answer, bytes):
                return answer
            target = answer
        raise ResolveFailed(f"{url}: more than {_MAXIMUM_REDIRECTS} redirects")

    async def _get(self, url: httpx2.URL) -> bytes | httpx2.URL:
        """The body of the answer, or where it redirects to."""
        # Built by hand: the client would add its own default headers.
        response = await self._http.send(httpx2.Request("GET", url), stream=True)
        async with aclosing(response):
            if response.has_redirect_location:
                return _same_origin(url, response.headers["Location"])
            _check_status(url, response)
            try:
                return await read_body(response, limit=MANIFEST_LIMIT)
            except BodyTooLarge:
                raise ResolveFailed(f"{url}: the answer exceeds {MANIFEST_LIMIT} bytes") from None


def _check_status(url: httpx2.URL, response: httpx2.Response) -> None:
    status = response.status_code
    if status == httpx2.codes.NOT_FOUND:
        raise TagNotFound(f"{url}: the registry has no such model or tag")
    if status == httpx2.codes.TOO_MANY_REQUESTS or status >= httpx2.codes.INTERNAL_SERVER_ERROR:
        raise _Obstacle(f"status {status}", retry_after=_retry_after(response))
    if not response.is_success:
        raise ResolveFailed(f"{url}: status {status}")


def _retry_after(response: httpx2.Response) -> int:
    """The requested pause in whole seconds; dates and anything else count as no request."""
    text = response.headers.get("Retry-After", "")
    if not (text.isascii() and text.isdigit()):
        return 0
    # More than a few digits mean more than the longest pause, whatever they are.
    return min(int(text[:9]), _LONGEST_RETRY_AFTER_SECONDS)


def _same_origin(url: httpx2.URL, location: str) -> httpx2.URL:
    """The target of a redirect, which must not leave the registry that was allowed."""
    try:
        target = url.join(location)
    except httpx2.InvalidURL:
        raise ResolveFailed(f"{url}: redirects to a malformed address") from None
    if _origin(target) != _origin(url) or target.userinfo:
        raise ResolveFailed(f"{url}: redirects to another origin, {target.scheme}://{target.host[:_LONGEST_QUOTE]}")
    return target


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or _DEFAULT_PORTS.get(url.scheme)


def _check_manifest(url: httpx2.URL, content: bytes) -> None:
    try:
        manifest = msgspec.json.decode(content, type=_Manifest)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ResolveFailed(f"{url}: not a manifest: {error}"[: 2 * _LONGEST_QUOTE]) from error
    if manifest.schema_version != 2:
        raise ResolveFailed(f"{url}: schemaVersion {manifest.schema_version} is not 2")

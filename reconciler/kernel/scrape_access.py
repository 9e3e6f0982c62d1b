"""Who may scrape metrics: the API server says who a bearer token belongs to, and whether that account may get the path.

TokenReview first, SubjectAccessReview second, as every component of Kubernetes does it. What was permitted is
remembered for a minute, so that a scrape costs no request; a refusal is asked again every time, so that a new binding
works at once. Tokens are kept as digests only and never logged.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec

from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import KubernetesError
from reconciler.kernel.health import Request
from reconciler.kernel.resources import KubernetesObject, Resource

_log = logging.getLogger(__name__)

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)

PERMITTED_SECONDS = 60.0
MOST_PERMITTED = 256
_REVIEWS_AT_ONCE = 4


class _User(msgspec.Struct):
    """The account that a token stands for, as an access review wants it; empty for a token that stands for none."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User | None = None


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class ScrapeAccess:
    """Admits requests by their bearer token.

    Args:
        client: Connection to the API server.
        clock: Monotonic seconds.
    """

    def __init__(self, client: KubernetesClient, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._permitted: OrderedDict[bytes, float] = OrderedDict()
        # Whoever sends tokens at random must not turn this endpoint into a flood upon the API server.
        self._reviews = asyncio.Semaphore(_REVIEWS_AT_ONCE)

    async def admit(self, request: Request) -> HTTPStatus:
        """Return OK, UNAUTHORIZED, FORBIDDEN, or SERVICE_UNAVAILABLE when the API server gives no answer."""
        if not request.bearer_token:
            return HTTPStatus.UNAUTHORIZED
        identity = hashlib.sha256(f"{request.path} {request.bearer_token}".encode()).digest()
        if self._is_permitted(identity):
            return HTTPStatus.OK
        async with self._reviews:
            status = await self._review(request)
        if status is HTTPStatus.OK:
            self._permit(identity)
        return status

    def _is_permitted(self, identity: bytes) -> bool:
        end = self._permitted.get(identity)
        return end is not None and self._clock() < end

    def _permit(self, identity: bytes) -> None:
        self._permitted.pop(identity, None)
        self._permitted[identity] = self._clock() + PERMITTED_SECONDS
        if len(self._permitted) > MOST_PERMITTED:
            self._permitted.popitem(last=False)

    async def _review(self, request: Request) -> HTTPStatus:
        try:
            user = await self._authenticated(request.bearer_token)
            if user is None:
                return HTTPStatus.UNAUTHORIZED
            return HTTPStatus.OK if await self._allowed(user, request.path) else HTTPStatus.FORBIDDEN
        except KubernetesError as error:
            # The server's message could repeat what was sent; the reason cannot.
            _log.warning("a scraper cannot be examined: %s: %s %s", error.request, error.status or "", error.reason)
            return HTTPStatus.SERVICE_UNAVAILABLE

    async def _authenticated(self, token: str) -> _User | None:
        answer = await self._client.create(TOKEN_REVIEWS, None, {"spec": {"token": token}})
        status = _read(answer, _TokenStatus)
        return status.user if status.authenticated and status.user and status.user.username else None

    async def _allowed(self, user: _User, path: str) -> bool:
        account = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups or [],
            "extra": user.extra or {},
        }
        spec = {**account, "nonResourceAttributes": {"path": path, "verb": "get"}}
        status = _read(await self._client.create(ACCESS_REVIEWS, None, {"spec": spec}), _AccessStatus)
        return status.allowed and not status.denied


def _read(answer: KubernetesObject, status: type[Any]) -> Any:
    try:
        return msgspec.convert(answer.get("status") or {}, type=status)
    except msgspec.ValidationError as error:
        raise KubernetesError("a review without a readable status", reason="InvalidResponse") from error

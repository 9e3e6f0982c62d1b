"""Calls to the runtime in a serving Pod (spec sections 2.4, 6.2 and 7.2).

The bearer key travels to Pod addresses only: no proxy, no redirect, and no text of an answer in an error, since a
hostile runtime could echo the key into it.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from contextlib import aclosing
from ipaddress import ip_address
from typing import Any, Final, TypeVar

import httpx2
import msgspec

from api import keys
from reconciler.engine.bodies import BodyTooLarge, read_body
from reconciler.engine.decisions import Answer, Enquiry, parse_answers
from reconciler.engine.errors import MalformedAnswer, RuntimeRejected, RuntimeUnauthorized, RuntimeUnreachable
from reconciler.engine.gate import LoadedModel
from reconciler.http_client import open_client
from reconciler.turns import FairSlots

WARM_UP_SECONDS: Final = 120.0
INSPECTION_SECONDS: Final = 5.0
DECISION_SECONDS: Final = 30.0
ANSWER_LIMIT: Final = 1 << 18
"""Bytes of an answer to the prober; a list of loaded models has a few hundred each."""
DECISION_LIMIT: Final = 1 << 21
"""Bytes of an answer to a decision, which repeats every label of a request of at most 1 MiB."""

_CONNECT_SECONDS: Final = 5.0
_INSPECTIONS_AT_ONCE: Final = 32
_ERROR_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_PRECISION: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_WHOLE_SECONDS: Final = re.compile(r"[0-9]{1,6}")
_LONGEST_QUOTE: Final = 200
_REFUSED_KEY: Final = (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN)


_Answer = TypeVar("_Answer")


class _Details(msgspec.Struct):
    quantization_level: str | None = None


class _Entry(msgspec.Struct):
    name: str
    digest: str | None = None
    device: str | None = None
    # Only an explicit null means pinned, so absence must stay visible; any other value is an end.
    expires_at: Any = msgspec.UNSET
    details: _Details | None = None


class _LoadedModels(msgspec.Struct):
    models: list[_Entry]


class _Decision(msgspec.Struct):
    done_reason: str


class _Refusal(msgspec.Struct):
    code: str


class RuntimeClient:
    """Talks to the runtimes of all Pods.

    Args:
        port: Where runtimes listen.
        inspections_at_once: Bound of concurrent inspections. It stands outside the connection pool, whose own
            queue costs time with every request it holds.
    """

    def __init__(self, *, port: int = keys.RUNTIME_PORT, inspections_at_once: int = _INSPECTIONS_AT_ONCE) -> None:
        self._port = port
        self.inspections = FairSlots(inspections_at_once, reserve=True)
        self._http = open_client(
            trust_env=False,
            # Pods speak plain HTTP: a context that trusts nobody saves reading the certificates of everybody.
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            # Addresses of Pods are used again: a connection is for one call, or an answer could reach another model.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        )

    async def aclose(self) -> None:
        """Release the client's resources."""
        await self._http.aclose()

    async def warm_up(
        self, address: str, model: str, key: str | None, *, timeout_seconds: float = WARM_UP_SECONDS
    ) -> None:
        """Load a model and pin it in memory. Repeating it is harmless.

        Args:
            address: The Pod's IP.
            model: The name as the runtime understands it (`ModelName.reference`).
            key: The bearer key, None without authentication.
            timeout_seconds: Limit of the whole call.

        Raises:
            RuntimeCallError: The model is not known to be loaded.
        """
        body = msgspec.json.encode({"model": model, "keep_alive": -1})
        request = self._request("POST", address, "/api/decide", key=key, body=body)
        decision = _parsed(await self._call(request, timeout_seconds), _Decision)
        if decision.done_reason != "load":
            raise MalformedAnswer("the runtime answered the warm-up with something else than a load")

    async def inspect(
        self, address: str, key: str | None, *, tenant: str = "", timeout_seconds: float = INSPECTION_SECONDS
    ) -> tuple[LoadedModel, ...]:
        """The models in a runtime's memory.

        Args:
            address: The Pod's IP.
            key: The bearer key, None without authentication.
            tenant: For whom: the Pod's namespace. Inspections of one keep no other's waiting.
            timeout_seconds: Limit of the whole call, not counting the wait for other inspections.

        Raises:
            RuntimeCallError: Nothing was learnt.
        """
        request = self._request("GET", address, "/api/ps", key=key)
        async with self.inspections.hold(tenant):
            body = await self._call(request, timeout_seconds)
        return tuple(_loaded_model(entry, key) for entry in _parsed(body, _LoadedModels).models)

    async def ask(
        self, address: str, enquiry: Enquiry, key: str | None, *, timeout_seconds: float = DECISION_SECONDS
    ) -> Mapping[str, Answer]:
        """The usable answers of a model by question id; a question without one got no answer, or a broken one.

        Args:
            address: The Pod's IP.
            enquiry: What is asked.
            key: The bearer key, None without authentication.
            timeout_seconds: Limit of the whole call.

        Raises:
            RuntimeCallError: Nothing was answered; `RuntimeRejected` carries the status, the code and when to retry.
        """
        request = self._request("POST", address, "/v1/systemone", key=key, body=enquiry.body())
        return parse_answers(await self._call(request, timeout_seconds, limit=DECISION_LIMIT))

    def _request(
        self, method: str, address: str, path: str, *, key: str | None, body: bytes | None = None
    ) -> httpx2.Request:
        headers = {"Accept-Encoding": "identity"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        return httpx2.Request(method, self._url(address, path), headers=headers, content=body)

    def _url(self, address: str, path: str) -> httpx2.URL:
        try:
            host = ip_address(address)
            return httpx2.URL(scheme="http", host=str(host), port=self._port, path=path)
        except (ValueError, httpx2.InvalidURL):
            raise RuntimeUnreachable(f"{address[:_LONGEST_QUOTE]!r} is not a Pod's IP") from None

    async def _call(self, request: httpx2.Request, timeout_seconds: float, *, limit: int = ANSWER_LIMIT) -> bytes:
        """Body of a successful answer."""
        where = request.url.path
        try:
            async with asyncio.timeout(timeout_seconds):
                response = await self._http.send(request, stream=True)
                async with aclosing(response):
                    body = await read_body(response, limit=limit)
        except TimeoutError:
            raise RuntimeUnreachable(f"{where}: no complete answer within {timeout_seconds:g} s") from None
        except httpx2.TransportError as error:
            raise RuntimeUnreachable(f"{where}: {type(error).__name__}") from error
        except BodyTooLarge:
            raise MalformedAnswer(f"{where}: the answer exceeds {limit} bytes") from None
        _check_status(where, response, body)
        return body


def _check_status(where: str, response: httpx2.Response, body: bytes) -> None:
    status = response.status_code
    if status in _REFUSED_KEY:
        raise RuntimeUnauthorized(f"{where}: the runtime does not accept the key (status {status})")
    if httpx2.codes.is_success(status):
        return
    code = _error_code(body)
    raise RuntimeRejected(
        f"{where}: status {status}{f' ({code})' if code else ''}",
        status=status,
        code=code,
        retry_after_seconds=_retry_after(response),
    )


def _retry_after(response: httpx2.Response) -> float | None:
    """Seconds of the header Retry-After (RFC 9110 section 10.2.3); a date, which runtimes never send, is left out."""
    text = response.headers.get("Retry-After", "")
    return float(text) if _WHOLE_SECONDS.fullmatch(text) else None


def _error_code(body: bytes) -> str:
    """The runtime's own code of an error; anything but a code is left out."""
    try:
        code = msgspec.json.decode(body, type=_Refusal).code
    except (msgspec.MsgspecError, RecursionError):
        return ""
    return code if _ERROR_CODE.fullmatch(code) else ""


def _parsed(body: bytes, shape: type[_Answer]) -> _Answer:
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        # Names the place and the types, never a value.
        raise MalformedAnswer(f"the runtime's answer breaks its contract: {error}"[:_LONGEST_QUOTE]) from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MalformedAnswer("the runtime's answer is not JSON") from error


def _loaded_model(entry: _Entry, key: str | None) -> LoadedModel:
    return LoadedModel(
        name=entry.name,
        digest=(entry.digest or "").removeprefix("sha256:"),
        device=entry.device or "",
        pinned=entry.expires_at is None,
        precision=_precision(entry.details, key),
    )


def _precision(details: _Details | None, key: str | None) -> str | None:
    """The precision, such as Q8_0; any other text, which would be recorded all the same, is left out."""
    text = details.quantization_level if details else None
    if text is None or not _PRECISION.fullmatch(text):
        return None
    return None if key and key in text else text

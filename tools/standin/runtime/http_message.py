"""Requests and responses as values, between the sockets (`http_server`) and the endpoints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import ApiError


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case.

    `read_body` takes the body from the socket, for the key is checked before the size (spec section 2.4); it raises
    ApiError `REQUEST_TOO_LARGE`. `client_is_gone` asks the socket too.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    read_body: Callable[[], bytes]
    client_is_gone: Callable[[], bool] = lambda: False

    def json_object(self) -> dict[str, Any]:
        """Return the body; ApiError `INVALID_JSON` when it is empty, no JSON or no object (spec section 2.2)."""
        try:
            document = json.loads(self.read_body(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ApiError("INVALID_JSON", f"the request body is not JSON: {error}") from None
        if not isinstance(document, dict):
            raise ApiError("INVALID_JSON", "the request body is not a JSON object")
        return document


@dataclass(frozen=True, slots=True)
class Response:
    """One response. With `lines`, the body is a stream and each item is sent as soon as it is there."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    lines: Iterator[bytes] | None = None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def json_response(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a JSON body."""
    return Response(status, json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"), headers=headers or {})


def json_line(document: Any) -> bytes:
    """Return one line of a newline-delimited JSON stream."""
    return json.dumps(document).encode() + b"\n"


def error_response(error: ApiError) -> Response:
    """Return the response that says `error`."""
    return json_response(error.as_json(), error.status, error.headers)

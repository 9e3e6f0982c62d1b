"""The closed table of paths and the order of checks before an endpoint runs (spec sections 2.1 and 2.3)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from . import faults
from .access import check_host, check_key, check_origin, id_headers, is_preflight, preflight_response
from .endpoints import Endpoints
from .errors import ApiError
from .http_message import Request, Response, error_response
from .switches import Switches
from .tally import RequestTally

Endpoint = Callable[[Request], Response]

_log = logging.getLogger("ollaya")
_OLLAMA_ONLY: Final = frozenset({"/api/generate", "/api/chat", "/api/embed", "/api/embeddings"})
_BLOBS: Final = "/api/blobs/"


class Routes:
    """The application of the daemon's port: a request in, a response out, never an exception of the contract."""

    def __init__(self, endpoints: Endpoints, tally: RequestTally) -> None:
        self._endpoints = endpoints
        self._settings = endpoints.settings
        self._board = endpoints.board
        self._table = _table(endpoints)
        self._tally = tally

    def __call__(self, request: Request) -> Response:
        """Return the response, with its request id; a vanished client is a ConnectionError."""
        try:
            response = self._checked(request)
        except ApiError as error:
            response = error_response(error)
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 - a bug in one request must not cost the daemon: it is a 500 and a log line
            _log.exception("internal error path=%s", request.path)
            response = error_response(ApiError("INTERNAL", "internal error"))
        self._tally.count(request.method, request.path, response.status)
        _log.debug("request method=%s path=%s status=%d", request.method, request.path, response.status)
        return replace(response, headers={**response.headers, **id_headers(request), **_cors(request)})

    def _checked(self, request: Request) -> Response:
        faults.hang(request, self._board, Switches())
        check_host(request, self._settings)
        check_origin(request, self._settings)
        if is_preflight(request):
            return preflight_response(request)
        if request.path == "/" and request.method in {"GET", "HEAD"}:
            return self._endpoints.alive(request)
        check_key(request, self._settings.api_key)
        switches = self._board.current
        replaced = faults.replacement(switches)
        if replaced is not None:
            return replaced
        return faults.spoiled(self._endpoint(request)(request), switches)

    def _endpoint(self, request: Request) -> Endpoint:
        path = _BLOBS if request.path.startswith(_BLOBS) else request.path
        methods = self._table.get(path)
        if methods is None:
            raise ApiError("NOT_FOUND", _not_found_text(request.path))
        endpoint = methods.get("GET" if request.method == "HEAD" and "HEAD" not in methods else request.method)
        if endpoint is None:
            allowed = {"Allow": ", ".join(_allowed(methods))}
            text = f"{request.method} is not allowed on {request.path}"
            raise ApiError("METHOD_NOT_ALLOWED", text, headers=allowed)
        return endpoint


def _table(endpoints: Endpoints) -> dict[str, dict[str, Endpoint]]:
    table: dict[str, dict[str, Endpoint]] = {
        "/": {"GET": endpoints.alive},
        "/api/version": {"GET": endpoints.version},
        "/api/tags": {"GET": endpoints.tags},
        "/api/ps": {"GET": endpoints.ps},
        "/api/show": {"POST": endpoints.show},
        "/api/decide": {"POST": endpoints.decide},
        "/api/pull": {"POST": endpoints.pull},
        "/api/delete": {"DELETE": endpoints.delete},
        "/api/copy": {"POST": endpoints.copy},
        "/api/create": {"POST": endpoints.not_implemented},
        "/api/push": {"POST": endpoints.not_implemented},
        _BLOBS: {"HEAD": endpoints.not_implemented, "POST": endpoints.not_implemented},
        "/v1/systemone": {"POST": endpoints.systemone},
        "/v1/decisions": {"POST": endpoints.systemone},
        "/v1/models": {"GET": endpoints.models},
    }
    if not endpoints.settings.supports("presets"):
        return table
    return table | {
        "/api/presets": {"GET": endpoints.list_presets},
        "/api/presets/create": {"POST": endpoints.create_preset},
        "/api/presets/show": {"POST": endpoints.show_preset},
        "/api/presets/delete": {"DELETE": endpoints.delete_preset},
    }


def _allowed(methods: dict[str, Endpoint]) -> list[str]:
    return [*methods, "HEAD"] if "GET" in methods else list(methods)


def _not_found_text(path: str) -> str:
    hint = ", this server makes decisions: see POST /api/decide" if path in _OLLAMA_ONLY else ""
    return f"no such path: {path}{hint}"


def _cors(request: Request) -> dict[str, str]:
    origin = request.headers.get("origin")
    return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"} if origin else {}

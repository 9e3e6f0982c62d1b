"""Who may talk to the daemon: key, Host and Origin checks, and request ids (spec sections 2.2 and 2.3). Pure."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from fnmatch import fnmatchcase
from typing import Final

from .errors import ApiError
from .http_message import Request, Response
from .settings import Settings

_LOCAL_ORIGIN: Final = re.compile(r"https?://(localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(:\d+)?")
_APP_ORIGIN: Final = re.compile(r"(app|file|tauri|vscode[a-z-]*)://.*")
_LOCAL_DOMAINS: Final = (".localhost", ".local", ".internal")
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")


def check_host(request: Request, settings: Settings) -> None:
    """Refuse a foreign Host header on a daemon bound to loopback; ApiError `FORBIDDEN`."""
    if settings.address.is_loopback and not _is_local_host(request.headers.get("host", "")):
        raise ApiError("FORBIDDEN", "this Host header is not allowed on a loopback daemon")


def check_origin(request: Request, settings: Settings) -> None:
    """Refuse a browser page from elsewhere; ApiError `FORBIDDEN`."""
    origin = request.headers.get("origin")
    if origin is None or _LOCAL_ORIGIN.fullmatch(origin) or _APP_ORIGIN.fullmatch(origin):
        return
    if not any(fnmatchcase(origin, pattern) for pattern in settings.origins):
        raise ApiError("FORBIDDEN", "this Origin is not allowed, see OLLAYA_ORIGINS")


def check_key(request: Request, key: str | None) -> None:
    """Refuse a request without the configured bearer key; ApiError `UNAUTHORIZED`."""
    if key is None:
        return
    scheme, _, token = request.headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), key.encode()):
        raise unauthorized()


def unauthorized() -> ApiError:
    """Return the refusal of a missing or wrong key."""
    return ApiError("UNAUTHORIZED", "missing or wrong API key", headers={"WWW-Authenticate": "Bearer"})


def is_preflight(request: Request) -> bool:
    """Tell whether a browser asks for permission before the real request."""
    wanted = {"origin", "access-control-request-method"}
    return request.method == "OPTIONS" and wanted <= request.headers.keys()


def preflight_response(request: Request) -> Response:
    """Return the permission, good for a day."""
    headers = {
        "Access-Control-Allow-Origin": request.headers["origin"],
        "Access-Control-Allow-Methods": "GET, HEAD, POST, DELETE",
        "Access-Control-Allow-Headers": request.headers.get("access-control-request-headers", "*"),
        "Access-Control-Max-Age": "86400",
    }
    return Response(204, headers=headers)


def request_id(request: Request) -> str:
    """Return the client's request id if it is well formed, else a new one."""
    given = request.headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else f"req_{secrets.token_hex(16)}"


def id_headers(request: Request) -> dict[str, str]:
    """Return the headers that carry the request id; under ``/v1/`` there are two."""
    identity = request_id(request)
    headers = {"X-Request-Id": identity}
    return headers | {"x-typesafe-request-id": identity} if request.path.startswith("/v1/") else headers


def _is_local_host(header: str) -> bool:
    host = re.sub(r":\d*$", "", header.strip().lower()).strip("[]").rstrip(".")
    if host in {"", "localhost", socket.gethostname().lower()} or host.endswith(_LOCAL_DOMAINS):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_private or address.is_link_local or address.is_unspecified

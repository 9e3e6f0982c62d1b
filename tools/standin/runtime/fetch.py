"""HTTP GETs of the pull client: timeouts, proxies of the environment, redirects, and who gets a token.

Imported only when something is pulled: it brings the whole TLS stack with it.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import IO, Any, Final
from urllib.parse import urlsplit

from .errors import StandinError
from .settings import HuggingFaceAccess

CONNECT_SECONDS: Final = 20.0
_HUGGING_FACE: Final = "https://huggingface.co"


class FetchError(StandinError):
    """A GET failed: `status` is the HTTP status, None when there was no answer.

    `is_retryable` tells whether the same request may succeed later (spec section 5.1).
    """

    def __init__(self, message: str, status: int | None = None, *, is_retryable: bool = True) -> None:
        super().__init__(message)
        self.status = status
        self.is_retryable = is_retryable


class Fetcher:
    """Opens URLs as ``ollaya/<version>``."""

    def __init__(self, version: str, access: HuggingFaceAccess) -> None:
        self._agent = f"ollaya/{version}"
        self._access = access

    def open(self, url: str, read_seconds: float, headers: Mapping[str, str] | None = None) -> http.client.HTTPResponse:
        """Return the open response of a successful GET; FetchError for everything else."""
        actual, token = authorized_url(url, self._access)
        request = urllib.request.Request(actual, headers={"User-Agent": self._agent, **(headers or {})})  # noqa: S310 - see below
        if token is not None:
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        opener = urllib.request.OpenerDirector()
        for handler in _handlers(read_seconds):
            opener.add_handler(handler)
        try:
            response = opener.open(request, timeout=CONNECT_SECONDS)
        except urllib.error.HTTPError as error:
            error.close()
            text = f"GET {actual} answered {error.code}"
            raise FetchError(text, error.code, is_retryable=error.code >= 500) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            is_bad_url = isinstance(error, ValueError)
            text = f"error sending request for url ({actual}): {error}"
            raise FetchError(text, is_retryable=not is_bad_url) from None
        if not isinstance(response, http.client.HTTPResponse):
            raise FetchError(f"url ({actual}) is not of http or https", is_retryable=False)
        return response


def authorized_url(url: str, access: HuggingFaceAccess) -> tuple[str, str | None]:
    """Return where a URL is really fetched and the token that goes with it (spec section 1.3).

    Only URLs that began with Hugging Face's address get a token; ``HF_TOKEN`` never goes to a mirror.
    """
    if not url.startswith(f"{_HUGGING_FACE}/"):
        return url, None
    if access.endpoint is None:
        return url, access.token or access.upstream_token
    return access.endpoint.rstrip("/") + url.removeprefix(_HUGGING_FACE), access.token


class _SameHostRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; the token stays on the host it was meant for."""

    def redirect_request(  # noqa: PLR0913 - the signature is the base class's
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None and urlsplit(newurl).netloc == urlsplit(req.full_url).netloc:
            following.unredirected_hdrs.update(req.unredirected_hdrs)
        return following


def _handlers(read_seconds: float) -> list[urllib.request.BaseHandler]:
    """Return what an opener needs for http and https; no file or ftp URL of a hostile manifest is ever opened."""
    return [
        urllib.request.ProxyHandler(),
        _http_handler(read_seconds),
        _https_handler(read_seconds),
        _SameHostRedirects(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
    ]


def _http_handler(read_seconds: float) -> urllib.request.HTTPHandler:
    class Connection(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            self.sock.settimeout(read_seconds)

    class Handler(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Connection, req)

    return Handler()


def _https_handler(read_seconds: float) -> urllib.request.HTTPSHandler:
    class Connection(http.client.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            self.sock.settimeout(read_seconds)

    class Handler(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Connection, req)

    return Handler()

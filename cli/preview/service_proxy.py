"""Reaching a registry that answers only inside the cluster: through the API server's proxy of Services.

Who may `get` `services/proxy` of a Service may ask it through the API server. Who may not asks it directly, like any
other registry, and is told what comes of it.
"""

from __future__ import annotations

import re
from typing import Final

import httpx2

from reconciler.http_client import open_client

_SERVICE: Final = re.compile(r"([a-z0-9-]{1,63})\.([a-z0-9-]{1,63})\.svc(?:\.cluster\.local)?")
_PORTS: Final = {"http": 80, "https": 443}
_NOT_ALLOWED: Final = frozenset({httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN})


def proxied_path(url: httpx2.URL) -> str | None:
    """Return the API server's path for what a Service would be asked; None for a host that is no Service's."""
    service = _SERVICE.fullmatch(url.host)
    if service is None or url.scheme not in _PORTS:
        return None
    name, namespace = service.groups()
    port = url.port or _PORTS[url.scheme]
    return f"/api/v1/namespaces/{namespace}/services/{url.scheme}:{name}:{port}/proxy{url.raw_path.decode()}"


def by_service_proxy(api: httpx2.AsyncClient, direct: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """Return a client that asks Services through the API server where it may, and everybody else through `direct`.

    Args:
        api: A client of the API server, which whoever made it closes.
        direct: A client for everything else, which is closed with the one that is returned.
    """
    return open_client(transport=_ServiceProxy(api, direct), timeout=direct.timeout, trust_env=False)


class _ServiceProxy(httpx2.AsyncBaseTransport):
    def __init__(self, api: httpx2.AsyncClient, direct: httpx2.AsyncClient) -> None:
        self._api = api
        self._direct = direct

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        path = proxied_path(request.url)
        if path is not None and request.method == "GET":
            response = await self._api.send(self._api.build_request("GET", path), stream=True)
            if response.status_code not in _NOT_ALLOWED:
                return _passed_on(response)
            await response.aclose()
        return _passed_on(await self._direct.send(request, stream=True))

    async def aclose(self) -> None:
        await self._direct.aclose()


def _passed_on(response: httpx2.Response) -> httpx2.Response:
    """Return an answer as a transport does: with nothing read of it yet."""
    return httpx2.Response(
        response.status_code, headers=response.headers.raw, stream=response.stream, extensions=response.extensions
    )

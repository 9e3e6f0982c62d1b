"""A thin asynchronous API over plain-dict objects, used by the controller and the rest of the kernel.

lightkube carries configuration and credentials (see `connection`); requests are made here, on the httpx2 client,
rather than through lightkube's typed client. Callers want raw dicts: they compare, hash and patch what they render
themselves, and status of a custom resource has no class in lightkube. Its client would decode into structs first,
hides the HTTP status and Retry-After of non-JSON answers, knows no delete preconditions, and retries nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx2
import msgspec

from reconciler.kernel.connection import (
    API_CONNECTIONS,
    CredentialError,
    load_configuration,
    open_api_client,
    open_watch_client,
)
from reconciler.kernel.errors import KubernetesError, NotFound, Unauthorized, Unavailable, error_from_body
from reconciler.kernel.resources import ImpossibleNameError, KubernetesObject, Resource, Trim, whole
from reconciler.kernel.retry import DEFAULT_RETRIES, RetryPolicy, retry_after_seconds
from reconciler.kernel.stream import WatchStream
from reconciler.kernel.timing import REAL_TIME, Timing

PAGE_SIZE = 50
"""Objects in one answer to a list: at up to 1.5 MiB each, more would be a burden."""

_BYTES_AT_A_TIME = 1 << 18
_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"
# JSON is YAML, so the apply body is encoded like every other one.
_APPLY_PATCH = "application/apply-patch+yaml"
_SENDING_ERRORS = (httpx2.RequestError, CredentialError)


class _ListMetadata(msgspec.Struct, rename={"resource_version": "resourceVersion", "continue_token": "continue"}):
    resource_version: str
    continue_token: str = ""


class _List(msgspec.Struct):
    metadata: _ListMetadata
    # Objects take ten times their bytes, so they are decoded one after the other.
    items: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a list; `continue_token` is "" on the last one."""

    items: list[KubernetesObject]
    resource_version: str
    continue_token: str


def _decode_object(request: str, content: bytes | msgspec.Raw) -> KubernetesObject:
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise KubernetesError(f"not a JSON object: {error}", reason="InvalidResponse", request=request) from error


def _decode_list(request: str, content: bytes) -> _List:
    try:
        return msgspec.json.decode(content, type=_List)
    except msgspec.DecodeError as error:
        raise KubernetesError(f"not a list: {error}", reason="InvalidResponse", request=request) from error


class KubernetesClient:
    """Reads and writes objects, and opens watch streams.

    Every method raises a subclass of `KubernetesError`. 429, 5xx and connection failures are repeated within the
    policy's attempts and deadline; a repeated create may find its own object (`AlreadyExists`), a repeated
    conditional write its own change (`Conflict`).
    """

    def __init__(
        self,
        api: httpx2.AsyncClient,
        watch: httpx2.AsyncClient,
        *,
        field_manager: str,
        policy: RetryPolicy = DEFAULT_RETRIES,
        timing: Timing = REAL_TIME,
    ) -> None:
        self._api = api
        self._watch = watch
        self._field_manager = field_manager
        self._policy = policy
        self._timing = timing

    @classmethod
    def connect(
        cls,
        *,
        field_manager: str,
        kubeconfig: Path | None = None,
        context: str | None = None,
        connections: int = API_CONNECTIONS,
    ) -> Self:
        """Open a client from a kubeconfig, or from the Pod's service account when none is given.

        Raises:
            ConfigurationError: There are no usable credentials.
        """
        configuration = load_configuration(kubeconfig, context)
        return cls(
            open_api_client(configuration, field_manager, connections),
            open_watch_client(configuration, field_manager),
            field_manager=field_manager,
        )

    async def close(self) -> None:
        """Close all connections; open watch streams end with an error."""
        await self._api.aclose()
        await self._watch.aclose()

    async def get(self, resource: Resource, namespace: str | None, name: str) -> KubernetesObject | None:
        """Read one object, None when it does not exist, as one of an impossible name cannot."""
        try:
            return await self._request("GET", resource.object_path(namespace, name))
        except (NotFound, ImpossibleNameError):
            return None

    async def list(
        self, resource: Resource, namespace: str | None = None, *, label_selector: str = "", field_selector: str = ""
    ) -> list[KubernetesObject]:
        """Read a whole collection, page by page, in one namespace or (None) in all of them."""
        pages = self.list_pages(resource, namespace, label_selector=label_selector, field_selector=field_selector)
        return [item async for page in pages for item in page.items]

    async def list_pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        trim: Trim = whole,
    ) -> AsyncIterator[ListPage]:
        """Yield a collection in pages of one consistent snapshot.

        Each object is trimmed before the next one is decoded.

        No resourceVersion is sent: with "0" the server would ignore the limit and answer from a cache that may be
        stale. Items carry `apiVersion` and `kind`, which the server leaves out of lists of built-in types.
        """
        params = {"limit": str(PAGE_SIZE), "labelSelector": label_selector, "fieldSelector": field_selector}
        while True:
            path = resource.collection_path(namespace)
            body = _decode_list(f"GET {path}", await self._exchange("GET", path, params=params))
            page = await _read_page(resource, body, trim)
            yield page
            if not page.continue_token:
                return
            params["continue"] = page.continue_token

    async def create(self, resource: Resource, namespace: str | None, obj: KubernetesObject) -> KubernetesObject:
        """Create an object under its own name.

        Raises:
            AlreadyExists: The name is taken.
        """
        return await self._request(
            "POST",
            resource.collection_path(namespace),
            params={"fieldManager": self._field_manager},
            body=_identified(resource, obj),
        )

    async def replace(
        self, resource: Resource, namespace: str | None, name: str, obj: KubernetesObject
    ) -> KubernetesObject:
        """Replace an object; with `metadata.resourceVersion` in the body this is a compare-and-swap."""
        return await self._request(
            "PUT",
            resource.object_path(namespace, name),
            params={"fieldManager": self._field_manager},
            body=_identified(resource, obj),
        )

    async def merge_patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Mapping[str, Any],
        *,
        subresource: str | None = None,
    ) -> KubernetesObject:
        """Apply a JSON merge patch (RFC 7396). Lists are replaced whole: never send a list that others write too.

        With `metadata.resourceVersion` in the patch it is refused (`Conflict`) when the object changed meanwhile.
        """
        return await self._request(
            "PATCH",
            resource.object_path(namespace, name, subresource),
            params={"fieldManager": self._field_manager},
            body=patch,
            content_type=_MERGE_PATCH,
        )

    async def apply(  # noqa: PLR0913 - the options of the API's own request
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        obj: Mapping[str, Any],
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = True,
    ) -> KubernetesObject:
        """Server-side apply. One body holds all fields this manager wants to keep; an identical apply changes nothing.

        On a main resource this creates what is missing, so put `metadata.uid` in the body of an object that must exist.
        """
        return await self._request(
            "PATCH",
            resource.object_path(namespace, name, subresource),
            params={"fieldManager": field_manager or self._field_manager, "force": "true" if force else "false"},
            body=_identified(resource, {**obj, "metadata": {**obj.get("metadata", {}), "name": name}}),
            content_type=_APPLY_PATCH,
        )

    async def delete(  # noqa: PLR0913 - the options of the API's own request
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
    ) -> bool:
        """Delete an object; False when there was nothing to delete.

        Args:
            resource: The type.
            namespace: Its namespace, None for cluster-scoped types.
            name: Its name.
            uid: Delete only this incarnation.
            resource_version: Delete only this version.
            propagation: `Background`, `Foreground` or `Orphan`; the type's default when None.

        Raises:
            Conflict: A precondition failed; the object is another one by now.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": propagation,
            "preconditions": _without_none(preconditions) or None,
        }
        try:
            await self._request("DELETE", resource.object_path(namespace, name), body=_without_none(options))
        except NotFound:
            return False
        return True

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        resource_version: str,
        timeout_seconds: int,
        label_selector: str = "",
    ) -> AsyncIterator[WatchStream]:
        """Open a watch stream from a resourceVersion on, with bookmarks; it is never reopened here.

        Raises:
            KubernetesError: The stream was refused or broke. An ERROR event inside the stream raises as its own status.
        """
        params = {
            "watch": "1",
            "allowWatchBookmarks": "1",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
            "labelSelector": label_selector,
        }
        path = resource.collection_path(namespace)
        request = f"WATCH {path}"
        try:
            async with self._watch.stream("GET", path, params=_non_empty(params)) as response:
                if not response.is_success:
                    raise _refused(request, response, await response.aread())
                yield WatchStream(response.aiter_bytes(), request=request)
        except _SENDING_ERRORS as error:
            raise _unsent(request, error) from error

    async def _request(self, method: str, path: str, **content: Any) -> KubernetesObject:
        return _decode_object(f"{method} {path}", await self._exchange(method, path, **content))

    async def _exchange(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = _JSON,
    ) -> bytes:
        """Send one request, repeating it within the retry policy."""
        request = f"{method} {path}"
        content = None if body is None else msgspec.json.encode(body)
        headers = {"Accept": _JSON} | ({} if content is None else {"Content-Type": content_type})
        try:
            async with asyncio.timeout(self._policy.deadline):
                return await self._attempts(
                    request,
                    lambda: self._api.request(
                        method, path, params=_non_empty(params or {}), content=content, headers=headers
                    ),
                )
        except TimeoutError as error:
            message = f"no answer within {self._policy.deadline:g} s"
            raise Unavailable(message, reason="Timeout", request=request) from error

    async def _attempts(self, request: str, send: Callable[[], Awaitable[httpx2.Response]]) -> bytes:
        for attempt in range(1, self._policy.attempts + 1):
            try:
                return await _answer(request, send)
            except Unavailable as error:
                delay = self._policy.delay(attempt, error.retry_after, self._timing.fraction())
                if delay is None:
                    raise
            await self._timing.sleep(delay)
        raise AssertionError("the policy ends the last attempt")


async def _answer(request: str, send: Callable[[], Awaitable[httpx2.Response]]) -> bytes:
    try:
        response = await send()
    except _SENDING_ERRORS as error:
        raise _unsent(request, error) from error
    if not response.is_success:
        raise _refused(request, response, response.content)
    return response.content


def _unsent(request: str, error: Exception) -> KubernetesError:
    """Name what kept a request from being answered."""
    if isinstance(error, CredentialError):
        return Unauthorized(str(error), reason="CredentialsUnreadable", request=request)
    reason = "Timeout" if isinstance(error, httpx2.TimeoutException) else "ConnectionFailed"
    return Unavailable(str(error) or type(error).__name__, reason=reason, request=request)


def _refused(request: str, response: httpx2.Response, body: bytes) -> KubernetesError:
    retry_after = retry_after_seconds(response.headers.get("Retry-After"))
    return error_from_body(response.status_code, body, request=request, retry_after=retry_after)


async def _read_page(resource: Resource, body: _List, trim: Trim) -> ListPage:
    items: list[KubernetesObject] = []
    decoded = 0
    for raw in body.items or ():
        items.append(trim(_identified(resource, _decode_object(f"an item of {resource.qualified_name}", raw))))
        decoded += len(bytes(raw))
        if decoded > _BYTES_AT_A_TIME:
            decoded = 0
            await asyncio.sleep(0)  # A page takes a while to decode, and others wait.
    return ListPage(items, body.metadata.resource_version, body.metadata.continue_token)


def _identified(resource: Resource, obj: Mapping[str, Any]) -> KubernetesObject:
    """Return the object with `apiVersion` and `kind`."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _non_empty(params: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in params.items() if value}


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}

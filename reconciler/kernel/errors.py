"""The kernel's one exception tree; most of it names what an API server answers, or fails to answer.

Callers branch on the class; `status`, `reason` and `causes` carry the server's own words for conditions and logs.
"""

from collections.abc import Iterable

import msgspec

# ruff: noqa: N818 - the classes are named as the API names its reasons
_TEXT_LIMIT = 300


class KernelError(Exception):
    """Root of everything the kernel raises on purpose."""


class KubernetesError(KernelError):
    """A request to the API server that did not succeed.

    Attributes:
        status: HTTP status code, 0 when there was no answer.
        reason: The server's CamelCase reason (`Conflict`, `NotFound`), or our own (`Timeout`, `ConnectionFailed`).
        message: The server's message.
        causes: Reasons of the answer's detailed causes, such as `NamespaceTerminating`.
        retry_after: Seconds the server asked to wait, if it did.
    """

    def __init__(  # noqa: PLR0913 - each is one attribute
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "Unknown",
        causes: Iterable[str] = (),
        retry_after: float | None = None,
        request: str = "",
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.request = request
        super().__init__(message)

    def __str__(self) -> str:
        where = f"{self.request}: " if self.request else ""
        code = f"{self.status} " if self.status else ""
        return f"{where}{code}{self.reason}: {self.message}"


class Unauthorized(KubernetesError):
    """401: the credentials were refused, or could not be read."""


class Forbidden(KubernetesError):
    """403: the role lacks a right, a quota is exhausted or the namespace is terminating (see `causes`)."""


class NotFound(KubernetesError):
    """404: the object, its namespace or its resource type does not exist."""


class Conflict(KubernetesError):
    """409: the object changed since it was read, a precondition failed, or another field manager owns a field."""


class AlreadyExists(KubernetesError):
    """409 on create: an object of that name exists."""


class Expired(KubernetesError):
    """410: the resourceVersion or continue token is older than the server's history."""


class Invalid(KubernetesError):
    """400, 415 or 422: the server understood who asks for what and refuses the content."""


class Unavailable(KubernetesError):
    """429, 5xx, no connection or no answer in time: nothing is wrong with the request; try again later."""


_BY_STATUS: dict[int, type[KubernetesError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    415: Invalid,
    422: Invalid,
    429: Unavailable,
}


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] = []
    retryAfterSeconds: int = 0  # noqa: N815 - the API's spelling


class _Status(msgspec.Struct):
    """The part of a meta/v1 Status that errors are made of."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


def error_from_body(
    status: int, body: bytes, *, request: str = "", retry_after: float | None = None
) -> KubernetesError:
    """Build the error for an HTTP answer; a body that is no Status (a proxy's page, say) is quoted shortly."""
    try:
        parsed = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        parsed = _Status(message=body[:_TEXT_LIMIT].decode("utf-8", "replace").strip() or "empty answer")
    return _build(status, parsed, request, retry_after)


def error_from_status(status_object: object, *, request: str = "") -> KubernetesError:
    """Build the error for a Status inside a 200 watch stream, whose code counts instead of the HTTP status."""
    try:
        parsed = msgspec.convert(status_object, type=_Status)
    except msgspec.ValidationError:
        parsed = _Status(message=f"unreadable status: {str(status_object)[:_TEXT_LIMIT]}")
    return _build(parsed.code, parsed, request, None)


def _build(status: int, parsed: _Status, request: str, retry_after: float | None) -> KubernetesError:
    details = parsed.details or _Details()
    return _class_for(status, parsed.reason)(
        parsed.message,
        status=status,
        reason=parsed.reason or "Unknown",
        causes=(cause.reason for cause in details.causes if cause.reason),
        retry_after=retry_after if retry_after is not None else (details.retryAfterSeconds or None),
        request=request,
    )


def _class_for(status: int, reason: str) -> type[KubernetesError]:
    if status == 409 and reason == "AlreadyExists":
        return AlreadyExists
    if status >= 500:
        return Unavailable
    return _BY_STATUS.get(status, KubernetesError)

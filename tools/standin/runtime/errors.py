"""The exceptions of the stand-in and the closed table of API error codes it sends (spec section 2.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

STATUS_OF_CODE: Final = {
    "INVALID_JSON": 400,
    "UNAUTHORIZED": 401,
    "FORBIDDEN": 403,
    "MODEL_NOT_FOUND": 404,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "OPERATION_IN_PROGRESS": 409,
    "REQUEST_TOO_LARGE": 413,
    "INVALID_REQUEST": 422,
    "TOO_MANY_OPTIONS": 422,
    "INPUT_TOO_LONG": 422,
    "STATE_TRUNCATED": 422,
    "MODEL_LOAD_FAILED": 500,
    "INFERENCE_FAILED": 500,
    "STORAGE_ERROR": 500,
    "INTERNAL": 500,
    "UNSUPPORTED_MODEL": 501,
    "NOT_IMPLEMENTED": 501,
    "REGISTRY_ERROR": 502,
    "DIGEST_MISMATCH": 502,
    "QUEUE_FULL": 503,
}


class StandinError(Exception):
    """Root of everything the stand-in raises on purpose."""


class SettingsError(StandinError):
    """An environment variable holds a value the daemon refuses to start with; the text names the variable."""


class InvalidModelNameError(StandinError):
    """A model name does not follow the grammar of spec section 3.4."""


class MalformedModelError(StandinError):
    """A manifest or one of its blobs is not what its media type promises."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One validation finding: where in the body (`loc`), what for people (`msg`) and for programs (`type`)."""

    loc: tuple[str | int, ...]
    msg: str
    type: str
    ctx: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the wire form; the offending input is never echoed."""
        wire: dict[str, Any] = {"loc": list(self.loc), "msg": self.msg, "type": self.type}
        return wire if self.ctx is None else wire | {"ctx": self.ctx}

    def as_text(self) -> str:
        """Return ``<loc without body>: <msg>``, the form that `error` strings are joined from."""
        where = ".".join(str(step) for step in self.loc if step != "body")
        return f"{where}: {self.msg}" if where else self.msg


@dataclass(slots=True)
class ApiError(StandinError):
    """A refusal with a code of `STATUS_OF_CODE`; `headers` travel with the response."""

    code: str
    message: str
    issues: tuple[Issue, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    @property
    def status(self) -> int:
        """HTTP status that belongs to the code."""
        return STATUS_OF_CODE[self.code]

    def as_json(self) -> dict[str, Any]:
        """Return the error body of spec section 2.4."""
        body: dict[str, Any] = {"error": self.message, "code": self.code}
        return body | {"detail": [issue.as_json() for issue in self.issues]} if self.issues else body


def refuse(issues: list[Issue], code: str = "INVALID_REQUEST") -> ApiError:
    """Return the one error that reports all `issues` at once."""
    return ApiError(code, "; ".join(issue.as_text() for issue in issues), tuple(issues))


def model_not_found(name: str, routed_from: str | None = None) -> ApiError:
    """Return the 404 whose text clients match literally (spec section 2.4)."""
    suffix = f' (routed from "{routed_from}")' if routed_from else ""
    return ApiError("MODEL_NOT_FOUND", f'model "{name}" not found, try pulling it first{suffix}')

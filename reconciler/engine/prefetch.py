"""The prefetch Job's script, and what its failures mean (spec section 4.3).

The script text is constant: a model name reaches it only as the value of a variable, so no name can become code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Final

from reconciler.engine.errors import InvalidModelName
from reconciler.engine.names import ModelName

_LONGEST_DETAIL: Final = 300
_SUBPATH: Final = re.compile(r"[0-9a-f]{10}|[0-9a-f]{16}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def _source(name: str) -> str:
    return files("reconciler.engine").joinpath(name).read_text(encoding="utf-8")


_PREFETCH: Final = _source("report.sh") + _source("prefetch.sh")
_REFUSAL: Final = _source("report.sh") + _source("refuse.sh")


def prefetch_script(model: str, digest: str, subpaths: tuple[str, ...]) -> str:
    """The script for `/bin/sh -c`; one that only refuses when any argument is not safe to act on.

    Args:
        model: The model's name as written in the spec.
        digest: The recorded digest, 64 hex digits.
        subpaths: The revision's directory of the store, and every other one that must survive.
    """
    try:
        ModelName.parse(model)
    except InvalidModelName:
        return _REFUSAL
    safe = bool(_DIGEST.fullmatch(digest)) and all(map(_SUBPATH.fullmatch, subpaths))
    return _PREFETCH if safe else _REFUSAL


class PrefetchFailureReason(StrEnum):
    """Why a prefetch Job failed."""

    MODEL_NOT_FOUND = "ModelNotFound"
    DIGEST_MISMATCH = "DigestMismatch"
    UPSTREAM_TAG_MOVED = "UpstreamTagMoved"
    SEED_UNAVAILABLE = "SeedUnavailable"
    TRANSIENT = "Transient"


EXIT_CODES: Final = {
    3: PrefetchFailureReason.MODEL_NOT_FOUND,
    4: PrefetchFailureReason.DIGEST_MISMATCH,
    5: PrefetchFailureReason.UPSTREAM_TAG_MOVED,
    6: PrefetchFailureReason.SEED_UNAVAILABLE,
}
"""Exit codes after which another try cannot help; they end the Job at once."""


_REPORTED: Final = {f"reason: {reason}": reason for reason in PrefetchFailureReason}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchFailure:
    """The classified end of a failed prefetch Job."""

    reason: PrefetchFailureReason
    detail: str = ""

    @property
    def permanent(self) -> bool:
        """Whether only a changed spec or registry can help."""
        return self.reason is not PrefetchFailureReason.TRANSIENT


def classify_failure(termination_message: str | None, exit_code: int | None) -> PrefetchFailure:
    """Read the failure from the newest failed Pod: the reason from its exit code, and the detail from its own words.

    The message may be the tail of the Pod's log instead of the termination log, and a log holds what a mirror says. So
    the last known reason in it counts only where the exit code says the same.
    """
    decided = EXIT_CODES.get(exit_code or 0, PrefetchFailureReason.TRANSIENT)
    lines = (termination_message or "").splitlines()
    for index in reversed(range(len(lines))):
        reason = _REPORTED.get(lines[index])
        if reason is not None:
            detail = _detail(lines[index + 1 : index + 2]) if reason is decided else ""
            return PrefetchFailure(reason=decided, detail=detail)
    return PrefetchFailure(reason=decided)


def _detail(following: list[str]) -> str:
    """The printable text of the `detail:` line behind a reason, if it is one."""
    key, _, value = following[0].partition(": ") if following else ("", "", "")
    return "".join(filter(str.isprintable, value))[:_LONGEST_DETAIL] if key == "detail" else ""

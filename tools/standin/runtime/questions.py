"""The typed form of a decision request, made by `validation` and answered by `scoring`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Question:
    """One question: `options` are (label, description) pairs in the caller's order.

    A choice has its labels, a score its levels ("0", "1", …), a noul "true" and "false". `instructions` is the text
    that was given, or the question's id.
    """

    id: str
    kind: str
    instructions: Any
    options: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """A validated body of `/v1/systemone` or `/api/decide`.

    `state` is None when the native call only loads or unloads; `questions` is None when none were sent. `keep_alive`
    is in seconds, None when the daemon's default holds.
    """

    model: str
    state: str | dict[str, Any] | list[Any] | None
    questions: tuple[Question, ...] | None
    keep_alive: float | None = None
    extras: tuple[str, ...] = ()
    preset: str | None = None
    has_images: bool = False


def as_text(value: Any) -> str:
    """Return a string as it is, nothing for null, and compact JSON for the rest."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))

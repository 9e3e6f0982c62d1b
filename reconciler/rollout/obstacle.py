"""What keeps the Pods or the store of a revision from coming about, as the cluster itself tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from api.conditions import Reason

LONGEST_MESSAGE: Final = 300
"""Characters; a condition is read in a terminal."""

_LONGEST_NAME: Final = 80
_FEWEST_WORDS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a revision gets no further, as a condition says it."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """One thing that somebody has to mend, or that has to pass, before a revision gets any further.

    Attributes:
        reason: The cluster's own word for it.
        kind: The kind of the object that tells it.
        name: Its name.
        words: What it tells: one line, with nothing in it that could be a secret.
        remedy: What to do.
    """

    reason: Reason
    kind: str
    name: str
    words: str
    remedy: str

    @property
    def cause(self) -> Cause:
        """What a condition says of it."""
        return Cause(reason=self.reason, message=self.message)

    @property
    def message(self) -> str:
        """Object, words and remedy in one line of at most `LONGEST_MESSAGE` characters; the words give way first."""
        subject = f"{self.kind} {cut(self.name, _LONGEST_NAME)}"
        room = LONGEST_MESSAGE - len(f"{subject}: ; {self.remedy}")
        return cut(f"{subject}: {cut(self.words, max(room, _FEWEST_WORDS))}; {self.remedy}", LONGEST_MESSAGE)


def cause_of(obstacle: Obstacle | None) -> Cause | None:
    """Return what a condition says of an obstacle, None without one."""
    return None if obstacle is None else obstacle.cause


def explained(cause: Cause, obstacle: Obstacle | None) -> Cause:
    """Return a cause with the obstacle that is behind it, which is the better reason."""
    if obstacle is None:
        return cause
    return Cause(reason=obstacle.reason, message=f"{cause.message}; {obstacle.message}")


def cut(text: str, longest: int) -> str:
    """Return a text, or as much of it as fits with a mark that there was more."""
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"

"""Texts from elsewhere on a terminal, and in the log of a CI system."""

from __future__ import annotations

import re
from typing import Final

# `::error::` where a line begins, `##[error]` and `##vso[task.complete]` anywhere.
_COMMAND: Final = re.compile(r"\A *:(?=:[A-Za-z])|#(?=#[A-Za-z]*\[)")


def printable(told: str) -> str:
    """Return a text without what would move a terminal's cursor, end its line, or be obeyed by a CI system."""
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in told)
    return _COMMAND.sub(lambda found: f"{found[0][:-1]}\\x{ord(found[0][-1]):x}", shown)

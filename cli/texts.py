"""Texts from elsewhere on a terminal."""

from __future__ import annotations


def printable(told: str) -> str:
    """Return a text without what would move a terminal's cursor or end its line."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in told)

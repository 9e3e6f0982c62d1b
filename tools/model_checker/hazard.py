"""Situations that a check can leave out, to look past what is known and accepted."""

from __future__ import annotations

from enum import StrEnum


class Hazard(StrEnum):
    """What does not happen in a run that leaves it out."""

    STALE_PROOF = "stale-proof"
    """A promotion relies on Pods that are gone already, which a lost watch hides until it is listed anew."""

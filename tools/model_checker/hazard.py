"""Situations that a check can leave out, to look past a fault that is known."""

from __future__ import annotations

from enum import StrEnum


class Hazard(StrEnum):
    """What does not happen in a run that leaves it out."""

    LOST_ANSWER = "lost-answer"
    """The status write of a promotion holds, but its answer is lost."""
    DELETED_SERVICE = "deleted-service"
    """A person deletes the Service."""
    DELETED_STORE = "deleted-store"
    """A person deletes a store that is not the stable's."""
    REMOVED_MEANWHILE = "removed-meanwhile"
    """A pass wants to keep what the operation in flight is still removing."""
    STALE_PROOF = "stale-proof"
    """A promotion relies on Pods that are gone already, which a lost watch hides."""
    RETURN_BEFORE_SWITCH = "return-before-switch"
    """The spec returns to the stable while the Service still selects the revision that was rolled back."""

"""The one rollout slot that all DecisionModels share, where their number is limited (spec section 5.11)."""

from __future__ import annotations

from enum import StrEnum


class Slot(StrEnum):
    """Who may begin a rollout."""

    UNLIMITED = "unlimited"
    FREE = "free"
    TAKEN = "taken"
    """By another DecisionModel, which never holds it while this one is rolling out or watches what it promoted."""

"""Turns for a limited number of slots, shared fairly by tenants."""

from reconciler.turns.queue import URGENT_TURNS, FairQueue, Turn
from reconciler.turns.slots import FairSlots

__all__ = ["URGENT_TURNS", "FairQueue", "FairSlots", "Turn"]

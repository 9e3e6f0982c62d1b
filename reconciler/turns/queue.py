"""Turns for a limited number of slots, shared fairly by tenants. Pure: no clock, no tasks.

Whose turn it is follows start-time fair queuing (Goyal, Vin and Cheng, IEEE/ACM Transactions on Networking 5 (1997),
690-704): each tenant has a count of the turns it has had, the lowest goes first, and who comes anew starts level with
those that wait. How many slots one tenant may hold follows dynamic thresholds (Choudhury and Hahne, the same journal 6
(1998), 130-140): a multiple of those that are free, so that some stay free for tenants that hold none.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

URGENT_TURNS: Final = 8
"""So many turns work that is in a hurry may be ahead of other tenants' work that is not; none waits for ever for it."""
_HELD_PER_FREE: Final = 3


@dataclass(frozen=True, slots=True, order=True)
class Turn:
    """A place in the queue; of one tenant's, those in a hurry come first, then the earliest."""

    relaxed: bool
    number: int
    tenant: str
    since: float
    """When it began to wait, on the caller's clock."""


class FairQueue:
    """Who waits for one of `size` slots, and who holds how many.

    Args:
        size: How many slots there are.
        reserve: Whether one tenant may hold no more than three times as many as are free, so that work which never ends
            leaves room for others. Without, no slot is idle while anybody waits: for work whose end is certain.
    """

    def __init__(self, size: int, *, reserve: bool) -> None:
        self._size = size
        self._reserve = reserve and size > 1
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, list[Turn]] = {}
        self._turns: dict[str, int] = {}
        self._level = 0
        self._joined = 0

    def join(self, tenant: str, since: float, *, urgent: bool = False) -> Turn:
        """Begin to wait; `grant` says when the wait is over."""
        self._joined += 1
        turn = Turn(not urgent, self._joined, tenant, since)
        self._turns[tenant] = max(self._turns.get(tenant, 0), self._level)
        bisect.insort(self._waiting.setdefault(tenant, []), turn)
        return turn

    def leave(self, turn: Turn) -> None:
        """Wait no longer."""
        self._remove(turn)
        self._drop_if_idle(turn.tenant)

    def grant(self) -> Turn | None:
        """Give a slot to whose turn it is; None while nobody who waits may have one."""
        eligible = [tenant for tenant in self._waiting if self._may_take(tenant)]
        if not eligible:
            return None
        self._level = max(self._level, min(self._turns[tenant] for tenant in eligible))
        turn = min((self._waiting[tenant][0] for tenant in eligible), key=self._precedence)
        self._turns[turn.tenant] = max(self._turns[turn.tenant], self._level) + 1
        self._remove(turn)
        self._held[turn.tenant] += 1
        return turn

    def give_back(self, tenant: str) -> None:
        """Give a slot back that was granted."""
        self._held[tenant] -= 1
        self._drop_if_idle(tenant)

    def waiting(self) -> Mapping[str, tuple[int, float]]:
        """For each tenant that waits: with how many turns, and since when."""
        return {tenant: (len(turns), min(each.since for each in turns)) for tenant, turns in self._waiting.items()}

    def held(self) -> Mapping[str, int]:
        """How many slots each tenant holds that holds any."""
        return {tenant: held for tenant, held in self._held.items() if held}

    def _precedence(self, turn: Turn) -> tuple[int, bool, int]:
        had = max(self._turns[turn.tenant], self._level)
        return had - (0 if turn.relaxed else URGENT_TURNS), turn.relaxed, turn.number

    def _may_take(self, tenant: str) -> bool:
        held, free = self._held[tenant], self._size - self._held.total()
        if free < 1 or not self._reserve or held == 0:
            return free >= 1
        return free > 1 and held < _HELD_PER_FREE * free

    def _remove(self, turn: Turn) -> None:
        turns = self._waiting[turn.tenant]
        turns.remove(turn)
        if not turns:
            del self._waiting[turn.tenant]

    def _drop_if_idle(self, tenant: str) -> None:
        if not self._held[tenant] and tenant not in self._waiting:
            del self._held[tenant]
            self._turns.pop(tenant, None)

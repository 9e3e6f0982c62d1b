"""A limited number of slots that asynchronous work holds while it runs, shared fairly by tenants."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from reconciler.turns.queue import FairQueue, Turn


class FairSlots:
    """Slots for work of one kind; a tenant is a namespace.

    Args:
        size: How many there are.
        reserve: Whether to keep some free for tenants that hold none (`FairQueue`).
        clock: Monotonic seconds.
    """

    def __init__(self, size: int, *, reserve: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._queue = FairQueue(size, reserve=reserve)
        self._clock = clock
        self._granted: dict[Turn, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def hold(self, tenant: str, *, urgent: bool = False) -> AsyncIterator[None]:
        """Wait for a slot and hold it; who is in a hurry goes first, within bounds.

        Giving up frees the place in the line, or the slot.
        """
        await self._take(tenant, urgent=urgent)
        try:
            yield
        finally:
            self._queue.give_back(tenant)
            self._grant()

    def waiting(self) -> dict[str, tuple[int, float]]:
        """For each tenant that waits: with how much work, and for how many seconds the longest."""
        now = self._clock()
        return {tenant: (count, now - since) for tenant, (count, since) in self._queue.waiting().items()}

    def held(self) -> dict[str, int]:
        """How many slots each tenant holds."""
        return dict(self._queue.held())

    async def _take(self, tenant: str, *, urgent: bool) -> None:
        turn = self._queue.join(tenant, self._clock(), urgent=urgent)
        granted = asyncio.get_running_loop().create_future()
        self._granted[turn] = granted
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if self._granted.pop(turn, None) is not None:
                self._queue.leave(turn)
            else:  # It had got its slot already.
                self._queue.give_back(tenant)
            self._grant()
            raise

    def _grant(self) -> None:
        while (turn := self._queue.grant()) is not None:
            granted = self._granted.pop(turn)
            if not granted.done():
                granted.set_result(None)
            else:  # Cancelled in this step of the loop: its own clean-up gives the slot back.
                continue

"""Whatever those who wait do, no slot is lost or lent twice, and turns are kept."""

from __future__ import annotations

import asyncio
import contextlib

from hypothesis import given
from hypothesis import strategies as st

from reconciler.turns import FairSlots

SIZE = 2
ACTIONS = st.sampled_from(["take", "take urgently", "give back", "give up", "give back and give up"])


class Counter:
    """Who waits for a slot, and who holds one."""

    def __init__(self) -> None:
        self.slots = FairSlots(SIZE)
        self.waiting: list[asyncio.Task[None]] = []
        self.lent: dict[asyncio.Task[None], asyncio.Event] = {}

    async def act(self, action: str, which: int) -> None:
        """Do it, the two things of one action without a step of anybody else between them."""
        if action.startswith("take"):
            self.waiting.append(asyncio.create_task(self._hold(f"t{which % 3}", urgent="urgently" in action)))
        if "give back" in action and self.lent:
            self.lent[[*self.lent][which % len(self.lent)]].set()
        if "give up" in action and self.waiting:
            self.waiting[which % len(self.waiting)].cancel()
        await self.settle()

    async def _hold(self, tenant: str, *, urgent: bool) -> None:
        task, done = asyncio.current_task(), asyncio.Event()
        assert task is not None
        async with self.slots.hold(tenant, urgent=urgent):
            self.lent[task] = done
            try:
                await done.wait()
            finally:
                del self.lent[task]

    async def settle(self) -> None:
        """Let everybody take a step."""
        for _ in range(5):
            await asyncio.sleep(0)
        self.waiting = [task for task in self.waiting if not task.done() and task not in self.lent]

    async def close(self) -> None:
        """Everybody gives up or back."""
        for task in (*self.waiting, *self.lent):
            task.cancel()
        await self.settle()


@given(st.lists(st.tuples(ACTIONS, st.integers(0, 5)), max_size=40))
def test_no_slot_is_lost_or_lent_twice(actions: list[tuple[str, int]]) -> None:
    async def use() -> None:
        counter = Counter()
        for action, which in actions:
            await counter.act(action, which)
            assert sum(counter.slots.held().values()) == len(counter.lent) <= SIZE
            assert not counter.waiting or len(counter.lent) == SIZE, "nobody waits while a slot is idle"
        await counter.close()
        assert (counter.slots.held(), counter.slots.waiting()) == ({}, {})

    asyncio.run(use())


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_turns_of_a_tenant_are_by_hurry_and_then_by_arrival(urgent: list[bool]) -> None:
    async def use() -> None:
        slots, order = FairSlots(1), list[int]()

        async def wait(number: int) -> None:
            async with slots.hold("a", urgent=urgent[number]):
                order.append(number)

        async with slots.hold("a"):
            waiting = [asyncio.create_task(wait(number)) for number in range(len(urgent))]
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        assert order == sorted(range(len(urgent)), key=lambda number: not urgent[number])

    asyncio.run(use())


def test_who_waits_how_long_is_told() -> None:
    async def use() -> None:
        now = 100.0
        slots = FairSlots(1, clock=lambda: now)
        async with slots.hold("greedy"):
            waiting = asyncio.create_task(_held(slots, "other"))
            await asyncio.sleep(0)
            now = 130.0
            assert (slots.held(), slots.waiting()) == ({"greedy": 1}, {"other": (1, 30.0)})
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
            assert slots.waiting() == {}

    asyncio.run(use())


async def _held(slots: FairSlots, tenant: str) -> None:
    async with slots.hold(tenant):
        pass

"""Whatever borrowers do, no slot of the pool is lost or lent twice, and turns are kept."""

from __future__ import annotations

import asyncio
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from reconciler.driver.worker_pool import _IdleSlots, _Slot

SIZE = 2
ACTIONS = st.sampled_from(["take", "take urgently", "give back", "give up", "give back and give up"])


class Counter:
    """Where slots are lent, and who is there."""

    def __init__(self) -> None:
        self.idle = _IdleSlots()
        self.everything = [cast("_Slot", object()) for _ in range(SIZE)]
        for slot in self.everything:
            self.idle.put(slot)
        self.waiting: list[asyncio.Task[_Slot]] = []
        self.lent: list[_Slot] = []

    async def act(self, action: str, which: int) -> None:
        """Do it, the two things of one action without a step of anybody else between them."""
        if action.startswith("take"):
            self.waiting.append(asyncio.create_task(self.idle.take(urgent="urgently" in action)))
        if "give back" in action and self.lent:
            self.idle.put(self.lent.pop(which % len(self.lent)))
        if "give up" in action and self.waiting:
            self.waiting[which % len(self.waiting)].cancel()
        await self.settle()

    async def settle(self) -> None:
        """Let everybody take a step, and see who has got a slot."""
        for _ in range(3):
            await asyncio.sleep(0)
        ended = [task for task in self.waiting if task.done()]
        self.waiting = [task for task in self.waiting if not task.done()]
        self.lent += [task.result() for task in ended if not task.cancelled()]

    async def close(self) -> None:
        """Everybody gives up or back."""
        for task in self.waiting:
            task.cancel()
        await self.settle()
        for slot in self.lent:
            self.idle.put(slot)


@given(st.lists(st.tuples(ACTIONS, st.integers(0, 5)), max_size=40))
def test_no_slot_is_lost_or_lent_twice(actions: list[tuple[str, int]]) -> None:
    async def use() -> None:
        counter = Counter()
        for action, which in actions:
            await counter.act(action, which)
            assert len(set(map(id, counter.lent))) == len(counter.lent)
            assert not counter.waiting or len(counter.lent) == SIZE, "nobody waits while a slot is idle"
        await counter.close()
        async with asyncio.timeout(0.2):
            left = [await counter.idle.take(urgent=False) for _ in range(SIZE)]
        assert set(map(id, left)) == set(map(id, counter.everything))

    asyncio.run(use())


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_turns_are_by_hurry_and_then_by_arrival(urgent: list[bool]) -> None:
    async def use() -> None:
        idle = _IdleSlots()
        order: list[int] = []

        async def wait(number: int) -> None:
            slot = await idle.take(urgent=urgent[number])
            order.append(number)
            idle.put(slot)

        waiting = [asyncio.create_task(wait(number)) for number in range(len(urgent))]
        await asyncio.sleep(0)
        idle.put(cast("_Slot", object()))
        await asyncio.gather(*waiting)
        assert order == sorted(range(len(urgent)), key=lambda number: not urgent[number])

    asyncio.run(use())

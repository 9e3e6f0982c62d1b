"""The work queue against a model of its rules, and its waiting side on a real loop."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reconciler.kernel.queue import WorkQueue
from reconciler.kernel.timing import REAL_TIME, Timing

KEYS = st.sampled_from("abcd")
DELAYS = st.integers(1, 20).map(float)


class FakeClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def make(clock: FakeClock, fraction: float = 0.5) -> WorkQueue[str]:
    return WorkQueue(timing=Timing(clock=clock, fraction=lambda: fraction))


class QueueMachine(RuleBasedStateMachine):
    """Any sequence of adds, timers, takes and returns, against the obvious model."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.queue = make(self.clock)
        self.wanted: set[str] = set()  # Added and not taken since.
        self.timers: dict[str, float] = {}
        self.working: set[str] = set()
        self.failures: dict[str, int] = {}

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        self.wanted.add(key)
        self.timers.pop(key, None)

    @rule(key=KEYS, delay=DELAYS)
    def add_after(self, key: str, delay: float) -> None:
        self.queue.add_after(key, delay)
        self._set_timer(key, delay)

    @rule(key=KEYS)
    def add_rate_limited(self, key: str) -> None:
        self.failures[key] = self.failures.get(key, 0) + 1
        delay = self.queue.add_rate_limited(key)
        assert delay == min(300.0, 2.0 ** (self.failures[key] - 1))
        self._set_timer(key, delay)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)

    @rule(seconds=DELAYS)
    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def take(self) -> None:
        due = {key for key, at in self.timers.items() if at <= self.clock.now}
        self.wanted |= due
        for key in due:
            del self.timers[key]
        taken = self.queue.take()
        if taken is None:
            assert self.wanted <= self.working, "a wanted key that nobody works on must be handed out"
            return
        assert taken in self.wanted, "nothing is handed out that nobody asked for"
        assert taken not in self.working, "no key is in two hands"
        self.wanted.discard(taken)
        self.working.add(taken)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.queue.done(key)
        self.working.discard(key)

    @invariant()
    def hands_match(self) -> None:
        assert self.queue.processing == self.working

    @invariant()
    def earliest_timer_wins(self) -> None:
        assert self.queue.next_due() == min(self.timers.values(), default=None)

    def _set_timer(self, key: str, delay: float) -> None:
        if key not in self.wanted:
            self.timers[key] = min(self.timers.get(key, float("inf")), self.clock.now + delay)


TestQueueRules = QueueMachine.TestCase


def test_keys_come_out_in_the_order_they_went_in() -> None:
    queue = make(FakeClock())
    for key in "badbca":
        queue.add(key)
    assert [queue.take() for _ in range(5)] == ["b", "a", "d", "c", None]


def test_a_key_added_while_in_work_goes_to_the_back_once() -> None:
    queue = make(FakeClock())
    queue.add("a")
    assert queue.take() == "a"
    for key in "aaba":
        queue.add(key)
    assert queue.take() == "b"
    queue.done("a")
    assert (queue.take(), queue.take()) == ("a", None)


@pytest.mark.parametrize(("fraction", "first", "last"), [(0.0, 0.8, 240.0), (0.5, 1.0, 300.0), (1.0, 1.2, 360.0)])
def test_the_failure_backoff_doubles_up_to_its_cap_with_jitter(fraction: float, first: float, last: float) -> None:
    queue = make(FakeClock(), fraction)
    delays = [queue.add_rate_limited("a") for _ in range(2000)]
    assert delays[:2] == pytest.approx([first, 2 * first])
    assert delays[-1] == pytest.approx(last)
    assert queue.failures("a") == 2000
    queue.forget("a")
    assert queue.add_rate_limited("a") == pytest.approx(first)


def test_giving_back_a_key_nobody_took_is_an_error() -> None:
    with pytest.raises(KeyError):
        make(FakeClock()).done("a")


def test_timers_that_no_longer_count_do_not_pile_up() -> None:
    queue = make(FakeClock())
    for _ in range(10_000):
        queue.add_after("a", 60.0)
        queue.add("a")
        assert queue.take() == "a"
        queue.done("a")
    assert len(queue._timers) < 200


@pytest.mark.anyio
async def test_waiting_workers_share_the_keys() -> None:
    queue: WorkQueue[int] = WorkQueue()
    taken: list[int] = []

    async def work() -> None:
        while (key := await queue.get()) is not None:
            taken.append(key)
            await asyncio.sleep(0)
            queue.done(key)
            if len(taken) == 20:
                queue.close()

    async with asyncio.timeout(5), asyncio.TaskGroup() as workers:
        for _ in range(4):
            workers.create_task(work())
        await asyncio.sleep(0)
        for key in range(20):
            (queue.add if key % 2 else lambda late: queue.add_after(late, 0.01))(key)
    assert sorted(taken) == list(range(20))


@pytest.mark.anyio
async def test_an_earlier_timer_wakes_a_worker_that_waits_for_a_later_one() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("late", 60.0)
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add_after("early", 0.01)
    assert await asyncio.wait_for(waiting, 5) == "early"


@pytest.mark.anyio
async def test_a_cancelled_worker_takes_nothing_with_it() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await asyncio.wait_for(queue.get(), 5) == "a"


@pytest.mark.anyio
async def test_a_closed_queue_hands_out_nothing() -> None:
    queue: WorkQueue[str] = WorkQueue(timing=replace(REAL_TIME, fraction=lambda: 0.5))
    queue.add("before")
    queue.close()
    queue.add("after")
    assert await queue.get() is None


def test_it_tells_how_long_work_takes() -> None:
    clock = FakeClock()
    queue = make(clock)
    for key in "ab":
        queue.add(key)
        clock.now += 1
        queue.take()
    assert (queue.longest_running, queue.unfinished_seconds) == (1.0, 1.0)
    clock.now += 2
    assert (queue.longest_running, queue.unfinished_seconds) == (3.0, 5.0)


def test_spreading_ends_even_where_chance_puts_every_key_at_once() -> None:
    queue = make(FakeClock(), fraction=0.0)
    for key in "abc":
        queue.add(key)
    queue.spread_ready(30.0)
    assert [queue.take() for _ in range(4)] == ["a", "b", "c", None]

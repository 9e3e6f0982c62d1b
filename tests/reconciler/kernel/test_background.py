"""Background tasks: once per key, limited per kind, and never a lost end."""

import asyncio
import logging
from functools import partial
from typing import ClassVar

import pytest

from reconciler.kernel import background
from reconciler.kernel.background import BackgroundTasks, TaskKey
from reconciler.kernel.resources import ObjectKey
from tests.fakes.waiting import until

pytestmark = pytest.mark.anyio

OWNER = ObjectKey("default", "model")
OTHER = ObjectKey("default", "other")


class Gate:
    """Work that ends when told to."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.running = 0
        self.most = 0
        self.order: list[str] = []

    async def work(self, name: str = "") -> str:
        self.order.append(name)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.opened.wait()
        finally:
            self.running -= 1
        return f"result {name}"


@pytest.fixture
def queued() -> list[ObjectKey]:
    return []


@pytest.fixture
async def tasks(queued: list[ObjectKey]) -> BackgroundTasks:
    return BackgroundTasks({"probe": 2, "operation": 1, "removal": None}, queued.append)


async def fail() -> None:
    raise ValueError("no such luck")


async def test_the_result_is_kept_and_the_owner_queued(tasks: BackgroundTasks, queued: list[ObjectKey]) -> None:
    gate, key = Gate(), TaskKey(OWNER, "probe", "pod-1")
    assert tasks.start(key, gate.work)
    assert tasks.running(key)
    assert tasks.outcome(key) is None
    gate.opened.set()
    await until(lambda: queued)
    outcome = tasks.outcome(key)
    assert outcome is not None
    assert (outcome.value, outcome.error, queued) == ("result ", None, [OWNER])
    assert not tasks.running(key)
    assert tasks.take(key) == outcome
    assert tasks.outcome(key) is None


async def test_an_exception_is_an_outcome(tasks: BackgroundTasks, queued: list[ObjectKey]) -> None:
    key = TaskKey(OWNER, "probe")
    tasks.start(key, fail)
    await until(lambda: queued)
    outcome = tasks.outcome(key)
    assert outcome is not None
    assert isinstance(outcome.error, ValueError)


async def test_starting_what_runs_changes_nothing(tasks: BackgroundTasks) -> None:
    gate, key = Gate(), TaskKey(OWNER, "probe")
    assert tasks.start(key, gate.work)
    assert not tasks.start(key, gate.work)
    await until(lambda: gate.running == 1)
    assert gate.most == 1
    await tasks.stop()


async def test_the_outcome_stays_until_the_next_one(tasks: BackgroundTasks, queued: list[ObjectKey]) -> None:
    gate, key = Gate(), TaskKey(OWNER, "probe")
    gate.opened.set()
    tasks.start(key, lambda: gate.work("first"))
    await until(lambda: queued)
    gate.opened.clear()
    tasks.start(key, lambda: gate.work("second"))
    await until(lambda: gate.running)
    first = tasks.outcome(key)
    gate.opened.set()
    await until(lambda: len(queued) == 2)
    second = tasks.outcome(key)
    assert first is not None
    assert second is not None
    assert (first.value, second.value) == ("result first", "result second")


async def test_kinds_are_limited_apart_and_served_in_order(tasks: BackgroundTasks, queued: list[ObjectKey]) -> None:
    probes, operations = Gate(), Gate()
    for number in range(5):
        tasks.start(TaskKey(OWNER, "probe", str(number)), partial(probes.work, str(number)))
        tasks.start(TaskKey(OWNER, "operation", str(number)), partial(operations.work, str(number)))
    await until(lambda: probes.running == 2 and operations.running == 1)
    assert tasks.count("probe") == 5
    probes.opened.set()
    operations.opened.set()
    await until(lambda: len(queued) == 10)
    assert (probes.most, operations.most) == (2, 1)
    assert operations.order == ["0", "1", "2", "3", "4"]


async def test_a_kind_without_a_limit_never_waits(tasks: BackgroundTasks) -> None:
    gate = Gate()
    for number in range(50):
        tasks.start(TaskKey(OWNER, "removal", str(number)), gate.work)
    await until(lambda: gate.running == 50)
    await tasks.stop()


async def test_an_outcome_that_nobody_will_look_at_is_not_kept(
    tasks: BackgroundTasks, queued: list[ObjectKey], caplog: pytest.LogCaptureFixture
) -> None:
    key, gate = TaskKey(OWNER, "removal", "1"), Gate()
    gate.opened.set()
    tasks.start(key, gate.work, keep_outcome=False)
    await until(lambda: queued)
    assert tasks.outcome(key) is None
    assert not caplog.text
    tasks.start(key, fail, keep_outcome=False)
    await until(lambda: len(queued) == 2)
    assert tasks.outcome(key) is None
    assert "removal 1 of default/model failed" in caplog.text
    assert "no such luck" in caplog.text


class Name(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared: ClassVar[int] = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return super().__eq__(other)


async def test_cancelling_looks_at_nobody_elses_work(tasks: BackgroundTasks, queued: list[ObjectKey]) -> None:
    gate, done = Gate(), Gate()
    done.opened.set()
    for number in range(100):
        owner = ObjectKey("default", Name(f"model-{number}"))
        tasks.start(TaskKey(owner, "removal", "running"), gate.work)
        tasks.start(TaskKey(owner, "removal", "done"), done.work)
    await until(lambda: len(queued) == 100)
    before = Name.compared
    tasks.cancel(ObjectKey("default", Name("model-7")), "removal")
    assert Name.compared - before < 20
    assert tasks.count("removal") == 99
    await tasks.stop()


async def test_an_unknown_kind_is_a_bug(tasks: BackgroundTasks) -> None:
    with pytest.raises(KeyError):
        tasks.start(TaskKey(OWNER, "unheard of"), fail)


async def test_cancelling_frees_the_key_at_once_and_reports_nothing(
    tasks: BackgroundTasks, queued: list[ObjectKey]
) -> None:
    gate, key = Gate(), TaskKey(OWNER, "probe", "pod-1")
    for other in (TaskKey(OWNER, "probe", "pod-11"), TaskKey(OTHER, "probe", "pod-1")):
        tasks.start(other, gate.work)
    tasks.start(key, gate.work)
    tasks.cancel(OWNER, "probe", "pod-1")
    assert not tasks.running(key)
    assert tasks.start(key, gate.work)
    gate.opened.set()
    await until(lambda: len(queued) == 3)
    assert sorted(queued) == [OWNER, OWNER, OTHER]
    tasks.cancel(OWNER)
    assert tasks.outcome(key) is None
    assert tasks.outcome(TaskKey(OTHER, "probe", "pod-1")) is not None


async def test_a_slot_is_free_only_when_the_cancelled_task_has_ended(tasks: BackgroundTasks) -> None:
    first, second, unwound = Gate(), Gate(), asyncio.Event()

    async def slow_to_end() -> None:
        try:
            await first.work()
        finally:
            await unwound.wait()

    tasks.start(TaskKey(OWNER, "operation"), slow_to_end)
    await until(lambda: first.running)
    tasks.cancel(OWNER)
    tasks.start(TaskKey(OTHER, "operation"), second.work)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not second.running
    unwound.set()
    await until(lambda: second.running)
    await tasks.stop()


async def test_stopping_drains_some_kinds_and_cancels_the_others(
    tasks: BackgroundTasks, queued: list[ObjectKey]
) -> None:
    probe, operation = Gate(), Gate()
    tasks.start(TaskKey(OWNER, "probe"), probe.work)
    tasks.start(TaskKey(OWNER, "operation"), operation.work)
    await until(lambda: probe.running and operation.running)
    stopping = asyncio.create_task(tasks.stop(drain={"operation"}, seconds=5))
    await until(lambda: not probe.running)
    assert not tasks.start(TaskKey(OTHER, "probe"), probe.work)
    operation.opened.set()
    await stopping
    assert tasks.outcome(TaskKey(OWNER, "operation")) is not None
    assert queued == [OWNER]


async def test_what_does_not_drain_in_time_is_cancelled_and_named(
    tasks: BackgroundTasks, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    tasks.start(TaskKey(OWNER, "operation", "up"), gate.work)
    await until(lambda: gate.running)
    await tasks.stop(drain={"operation"}, seconds=0.01)
    assert not gate.running
    assert "operation up of default/model" in caplog.text


async def test_what_ignores_its_cancellation_is_left_behind_and_named(
    tasks: BackgroundTasks, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "_UNWIND_SECONDS", 0.01)
    gate, ended = Gate(), asyncio.Event()

    async def stubborn() -> None:
        try:
            await gate.work()
        finally:
            await ended.wait()

    tasks.start(TaskKey(OWNER, "operation", "up"), stubborn)
    await until(lambda: gate.running)
    await tasks.stop()
    assert "default/model/operation/up ignores its cancellation" in caplog.text
    ended.set()


async def test_a_failure_nobody_read_is_logged_when_it_goes(
    tasks: BackgroundTasks, queued: list[ObjectKey], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            tasks.start(TaskKey(OWNER, "probe"), fail)
            await until(lambda: not tasks.running(TaskKey(OWNER, "probe")))
        assert "no such luck" in caplog.text
        caplog.clear()
        assert tasks.outcome(TaskKey(OWNER, "probe")) is not None
        tasks.cancel(OWNER)
        assert not caplog.text

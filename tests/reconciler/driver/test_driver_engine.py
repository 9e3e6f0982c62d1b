"""The driver with the real CLI, without a cluster: components need no provider."""

from __future__ import annotations

import asyncio
import gzip
import random
import re
from functools import partial
from pathlib import Path

import pytest

from reconciler.driver import FailureReason, OperationKind, Outcome, StackDriver
from reconciler.driver.sessions import read_stat
from tests.reconciler.driver import driver_programs
from tests.reconciler.driver.conftest import descendants, kill_if_running, make_operation, until, workers
from tests.reconciler.driver.real_engine import STACK, Engine, reason_of, up

pytestmark = pytest.mark.cluster


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path)


def cli_pid() -> int | None:
    """The running CLI, below this process."""
    stats = [read_stat(pid) for pid in descendants()]
    return next((stat.pid for stat in stats if stat and stat.command == "pulumi" and stat.state != "Z"), None)


def test_the_life_of_a_stack(engine: Engine) -> None:
    async def use(driver: StackDriver) -> None:
        created = await driver.run(up(2))
        assert created.failure is None
        assert created.changes == {"create": 3}
        unchanged = await driver.run(up(2))
        assert (unchanged.changes, unchanged.resources) == ({"same": 3}, ())
        planned = await driver.run(
            make_operation(OperationKind.PREVIEW, program=partial(driver_programs.declare_components, 1))
        )
        assert planned.changes == {"delete": 1, "same": 2}
        refreshed = await driver.run(
            make_operation(OperationKind.REFRESH_UP, program=partial(driver_programs.declare_components, 1))
        )
        assert [(change.name, change.op) for change in refreshed.resources] == [("part-1", "delete")]
        assert await driver.stacks() == (STACK,)
        destroyed = await driver.run(make_operation(OperationKind.DESTROY))
        assert destroyed.changes == {"delete": 2}
        removed = await driver.run(make_operation(OperationKind.REMOVE))
        assert removed.failure is None
        assert await driver.stacks() == ()

    engine.run(use)
    assert list(engine.settings.temporary_directory.iterdir()) == []
    assert not list(engine.state.rglob(f"{STACK}*.json*"))


def test_stacks_of_one_backend_are_created_one_after_the_other(engine: Engine) -> None:
    async def use(driver: StackDriver) -> tuple[str, ...]:
        for stack in ("one", "two", "one"):
            operation = make_operation(stack=stack, program=partial(driver_programs.declare_components, 1))
            assert (await driver.run(operation)).failure is None
        return await driver.stacks()

    assert engine.run(use) == ("one", "two")


def test_a_program_that_raises(engine: Engine) -> None:
    operation = make_operation(program=partial(driver_programs.fail, "no such revision"))
    outcome = engine.run(lambda driver: driver.run(operation))
    assert outcome.failure is not None
    assert outcome.failure.reason is FailureReason.PROGRAM_ERROR
    assert outcome.failure.message == "no such revision"


def test_a_program_that_prints(engine: Engine) -> None:
    operation = make_operation(program=partial(driver_programs.print_to_stdout, "\x00\x00\x01\x00"))
    assert engine.run(lambda driver: driver.run(operation)).failure is None


def test_a_program_that_kills_its_worker(engine: Engine) -> None:
    async def use(driver: StackDriver) -> Outcome:
        lost = await driver.run(make_operation(program=driver_programs.kill_own_process, deadline_seconds=20))
        assert lost.failure is not None
        return await driver.run(up(1))

    assert engine.run(use).failure is None


def test_a_hanging_program_ends_at_its_deadline_and_leaves_no_lock(engine: Engine, tmp_path: Path) -> None:
    async def use(driver: StackDriver) -> Outcome:
        program = partial(driver_programs.hang_after_telling, tmp_path / "running")
        hung = await driver.run(make_operation(program=program, deadline_seconds=3))
        assert reason_of(hung) is FailureReason.DEADLINE_EXCEEDED
        assert list(engine.locks.iterdir()) == []
        return await driver.run(up(1))

    assert engine.run(use).failure is None


@pytest.mark.parametrize("victim", ["cli", "worker"])
def test_a_kill_in_mid_operation_is_recovered_by_the_next(engine: Engine, tmp_path: Path, victim: str) -> None:
    async def use(driver: StackDriver) -> tuple[Outcome, Outcome]:
        (worker,) = workers()
        program = partial(driver_programs.hang_after_telling, tmp_path / "running")
        hanging = asyncio.create_task(driver.run(make_operation(program=program, deadline_seconds=20)))
        await until((tmp_path / "running").exists)
        kill_if_running(cli_pid() if victim == "cli" else worker)
        return await hanging, await driver.run(up(2))

    killed, after = engine.run(use)
    assert reason_of(killed) is FailureReason.INTERRUPTED
    assert after.failure is None
    assert sum(after.changes.values()) == 3
    assert list(engine.locks.iterdir()) == []


def test_a_state_beside_half_written_files_is_read_after_a_restart(engine: Engine) -> None:
    assert engine.run(lambda driver: driver.run(up(2))).failure is None
    assert not list(engine.state.rglob("*.attrs"))
    (checkpoint,) = engine.state.rglob(f"stacks/*/{STACK}.json.gz")
    remains = [checkpoint.with_name(f"{checkpoint.name}{end}") for end in (".attrs", ".bak.attrs", ".18a.tmp")]
    for file in remains:
        file.touch()
    after = engine.run(lambda driver: driver.run(up(2)))
    assert after.failure is None
    assert after.changes == {"same": 3}
    assert not any(file.exists() for file in remains)


@pytest.mark.parametrize("seed", range(6))
def test_a_cli_killed_at_any_moment_is_recovered_by_the_next(engine: Engine, seed: int) -> None:
    delay = random.Random(seed).uniform(0.02, 0.6)  # noqa: S311 -- a repeatable spread of moments

    async def use(driver: StackDriver) -> Outcome:
        await driver.run(up(1))
        running = asyncio.create_task(driver.run(up(20)))
        await until(lambda: cli_pid() is not None or running.done(), 60)
        pid = cli_pid()
        await asyncio.sleep(delay)
        kill_if_running(pid)
        await running
        return await driver.run(up(20))

    after = engine.run(use)
    assert after.failure is None
    assert sum(after.changes.values()) == 21
    assert list(engine.locks.iterdir()) == []


def test_a_lost_work_directory_costs_nothing(engine: Engine, tmp_path: Path) -> None:
    engine.up()
    before = gzip.decompress(engine.checkpoint.read_bytes())
    outcome = engine.up(work_directory=tmp_path / "another")
    assert outcome.changes == {"same": 3}
    after = gzip.decompress(engine.checkpoint.read_bytes())
    assert re.search(rb'"salt":"[^"]+"', before) is not None
    assert re.findall(rb'"salt":"[^"]+"', before) == re.findall(rb'"salt":"[^"]+"', after)


def test_a_wrong_passphrase_is_named_as_such(engine: Engine, tmp_path: Path) -> None:
    for name in ("right", "wrong"):
        (tmp_path / name).write_text(name)
    assert engine.up(passphrase_file=tmp_path / "right").failure is None
    outcome = engine.up(passphrase_file=tmp_path / "wrong")
    assert reason_of(outcome) is FailureReason.WRONG_PASSPHRASE


# Named here, since what is compressed bears the time of its making: each process would give it a name of its own.
@pytest.mark.parametrize(
    "content",
    [b"", b"garbage", gzip.compress(b'{"version": 3, "checkpoint": {"latest": 7}}')],
    ids=["empty", "garbage", "no checkpoint"],
)
def test_a_corrupt_state_is_reported_and_left_as_it_is(engine: Engine, content: bytes) -> None:
    engine.up()
    engine.checkpoint.write_bytes(content)
    assert reason_of(engine.up()) is FailureReason.STATE_CORRUPT
    assert engine.checkpoint.read_bytes() == content


def test_history_is_pruned(engine: Engine) -> None:
    async def use(driver: StackDriver) -> None:
        for count in (1, 2, 3):
            await driver.run(up(count))

    engine.run(use, history_entries=2)
    assert len(list(engine.state.rglob("*.history.json.gz"))) == 2
    assert len(list(engine.state.rglob("*.checkpoint.json.gz"))) == 2


@pytest.mark.parametrize(
    "url",
    [
        "file:///no/such/directory",
        "s3://bucket?endpoint=127.0.0.1:9&disableSSL=true&s3ForcePathStyle=true&region=us-east-1",
    ],
)
def test_a_backend_that_does_not_answer(engine: Engine, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    assert reason_of(engine.up(backend_url=url)) is FailureReason.BACKEND_UNREACHABLE

"""Fixtures of the driver's tests: a scripted stand-in for the CLI, and a way to run a driver in one call."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from reconciler.driver import DriverSettings, Operation, OperationKind, StackDriver
from tests.reconciler.driver import driver_programs
from tests.reconciler.driver.sessions import with_driver

Answer = TypeVar("Answer")
STAND_IN = Path(__file__).with_name("stand_in_cli.py")
WHERE = "stand-in"
"""File beside the executable that names the directory of the stand-in's script."""


@dataclass(frozen=True)
class StandIn:
    """The stand-in CLI of one test."""

    directory: Path
    settings: DriverSettings
    runner: asyncio.Runner
    shared: StackDriver

    def answers(self, **by_command: list[dict[str, Any]]) -> None:
        """Script it; `stack_init` stands for `stack init`."""
        scripted = {command.replace("_", " "): answers for command, answers in by_command.items()}
        scripted.setdefault("version", [{"stdout": "v3.274.1\n"}])
        (self.directory / "answers.json").write_text(json.dumps(scripted))

    def calls(self) -> list[dict[str, Any]]:
        """How it was called so far, version checks left out."""
        path = self.directory / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [call for call in map(json.loads, lines) if call["command"] != "version"]

    def commands(self) -> list[str]:
        """The commands of `calls`."""
        return [call["command"] for call in self.calls()]

    def run(self, use: Callable[[StackDriver], Coroutine[Any, Any, Answer]]) -> Answer:
        """Use the driver that all tests share, its worker warm."""
        return self.runner.run(use(self.shared))

    def run_fresh(self, use: Callable[[StackDriver], Coroutine[Any, Any, Answer]], **changes: Any) -> Answer:
        """Start a driver with other settings, use it, close it."""
        return self.runner.run(with_driver(replace(self.settings, **changes), use))


@dataclass(frozen=True)
class Shared:
    """What the tests of a module share: the loop, and a started driver with one warm worker."""

    runner: asyncio.Runner
    settings: DriverSettings
    driver: StackDriver


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    root = tmp_path_factory.mktemp("driver")
    executable = root / "pulumi"
    # The driver passes on no variable that the CLI does not need, so what the stand-in needs is in a file.
    told = f'read -r STAND_IN < "{root / WHERE}"\nexport STAND_IN\n'
    executable.write_text(f'#!/bin/sh\n{told}exec "{sys.executable}" -S "{STAND_IN}" "$@"\n')
    executable.chmod(0o755)
    settings = DriverSettings(
        pulumi=executable,
        pulumi_home=root / "home",
        backend_url=f"file://{root}/state",
        work_directory=root / "work",
        workers=1,
        plugins=(),
        grace_seconds=0.5,
        history_entries=2,
        state_rules=getattr(request.module, "STATE_RULES", None),
    )
    driver = StackDriver(settings)
    with asyncio.Runner() as runner:
        (root / WHERE).write_text(f"{root}\n")
        (root / "answers.json").write_text('{"version": [{"stdout": "v3.274.1"}]}')
        runner.run(driver.start())
        yield Shared(runner, settings, driver)
        runner.run(driver.close(grace_seconds=0))


@pytest.fixture
def stand_in(shared: Shared, tmp_path: Path) -> StandIn:
    # A test before may have cost the shared driver its worker.
    shared.runner.run(until(lambda: len(workers()) == 1))
    directory = tmp_path / "stand-in"
    directory.mkdir()
    shared.settings.pulumi.with_name(WHERE).write_text(f"{directory}\n")
    result = StandIn(directory, shared.settings, shared.runner, shared.driver)
    result.answers()
    return result


@pytest.fixture
def states(shared: Shared) -> Iterator[Path]:
    """The directory of the stacks' states in the shared driver's backend, empty; other tests do without a backend."""
    backend = Path(shared.settings.backend_url.removeprefix("file://"), ".pulumi")
    directory = backend / "stacks" / "decisionmodel"
    directory.mkdir(parents=True)
    yield directory
    shutil.rmtree(backend)


def make_operation(
    kind: OperationKind = OperationKind.UP, stack: str = "shop.fraud.1a2b3c4d", **changes: Any
) -> Operation:
    """An operation that needs no thought."""
    needs_program = kind in {OperationKind.UP, OperationKind.REFRESH_UP, OperationKind.PREVIEW}
    program = partial(driver_programs.declare_components, 2) if needs_program else None
    return Operation(**{"kind": kind, "stack": stack, "program": program, "deadline_seconds": 30.0, **changes})


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(seconds):
        # The conditions are of other processes, which set no event.
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def exists(pid: int) -> bool:
    """Whether a process exists, dead but uncollected ones included."""
    return Path(f"/proc/{pid}").exists()


def kill_if_running(pid: int | None) -> None:
    """Kill a process that may be there; it may also end by itself before the signal comes."""
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants() -> set[int]:
    """All processes below this one, except those in a cluster that this session has started."""
    parents = {
        int(entry.name): stat
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and (stat := _parent(entry)) is not None
    }
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    here = _process_namespace(os.getpid())
    return {pid for pid in found - {os.getpid()} if _process_namespace(pid) == here}


def workers() -> set[int]:
    """The worker processes below this one."""
    return {pid for pid in descendants() if b"reconciler.driver.worker" in _command_line(pid)}


def _process_namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _parent(entry: Path) -> int | None:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None

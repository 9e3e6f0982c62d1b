"""One run of the Pulumi CLI: own session, bounded output, deadline from outside, and nothing left behind.

The CLI starts its provider in a process group of its own, but in the same session; so it is the session that is
swept, after every run. The first SIGTERM goes to the CLI alone: it then tells the provider to stop, saves the state
and drops its lock, which a signal to the provider would spoil.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from reconciler.driver.sessions import end_session

OUTPUT_BYTES = 64 * 1024
"""How much of the end of each output stream is kept."""

_DRAIN_SECONDS = 5.0

_Result = TypeVar("_Result")


class Ending(StrEnum):
    """What ended a run."""

    EXITED = "exited"
    DEADLINE = "deadline"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CliRun:
    """How a run went.

    Attributes:
        ending: Whether it exited by itself.
        exit_code: The CLI's; negative: the signal that killed it.
        stdout: The end of its standard output.
        stderr: The end of its standard error.
    """

    ending: Ending
    exit_code: int
    stdout: str
    stderr: str

    @property
    def was_killed(self) -> bool:
        """Whether a signal ended it that it could not answer."""
        return self.exit_code < 0


class Stop:
    """What is asked of a run from outside, in this order.

    Attributes:
        asked: It shall end early, with its state saved.
        grace_over: It shall be killed if that has not worked yet.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.grace_over = asyncio.Event()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a run must end.

    Attributes:
        deadline: In `clock`'s seconds.
        grace_seconds: From SIGTERM to SIGKILL.
        stop: Ends it early.
        clock: Monotonic seconds.
    """

    deadline: float
    grace_seconds: float
    stop: Stop
    clock: Callable[[], float]


async def run_cli(argv: Sequence[str], *, environment: Mapping[str, str], directory: Path, limits: Limits) -> CliRun:
    """Run one CLI process to its end, whatever that takes.

    Not to be cancelled: ask `limits.stop` instead, so that the state is saved. One that was asked before its start
    starts no process.

    Raises:
        OSError: The executable cannot be started.
    """
    if limits.stop.asked.is_set():
        return CliRun(ending=Ending.STOPPED, exit_code=-signal.SIGTERM, stdout="", stderr="")
    transport, protocol = await asyncio.get_running_loop().subprocess_exec(
        _CliProtocol,
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        env=environment,
        cwd=directory,
        start_new_session=True,
    )
    try:
        ending = await _wait(protocol, limits)
        if ending is not Ending.EXITED:
            await _terminate(transport, protocol, limits)
        await end_session(transport.get_pid())
        await _within(_DRAIN_SECONDS, protocol.exited, protocol.drained)
    finally:
        transport.close()
    exit_code = transport.get_returncode()
    if exit_code is None:
        exit_code = -signal.SIGKILL
    return CliRun(ending=ending, exit_code=exit_code, stdout=protocol.text(1), stderr=protocol.text(2))


async def run_or_stop(running: asyncio.Task[_Result], stop: Stop) -> _Result:
    """Await a task that must not be cancelled; a cancellation of the caller asks it to stop, and leaves it running."""
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.asked.set()
        raise


class _CliProtocol(asyncio.SubprocessProtocol):
    """Keeps the end of both outputs, and tells exit from end of output.

    `asyncio.subprocess` would report the exit only when the pipes are closed too, and an orphaned provider holds
    them open.
    """

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()
        self._tails = {1: b"", 2: b""}
        self._open = set(self._tails)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._tails[fd] = (self._tails[fd] + data)[-OUTPUT_BYTES:]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's signature
        self._open.discard(fd)
        if not self._open:
            self.drained.set()

    def process_exited(self) -> None:
        self.exited.set()

    def text(self, fd: int) -> str:
        """The end of an output."""
        return self._tails[fd].decode(errors="replace")


async def _wait(protocol: _CliProtocol, limits: Limits) -> Ending:
    await _first_of(max(0.0, limits.deadline - limits.clock()), protocol.exited, limits.stop.asked)
    if protocol.exited.is_set():
        return Ending.EXITED
    return Ending.STOPPED if limits.stop.asked.is_set() else Ending.DEADLINE


async def _terminate(transport: asyncio.SubprocessTransport, protocol: _CliProtocol, limits: Limits) -> None:
    # It may have ended in this very moment.
    with suppress(ProcessLookupError):
        transport.terminate()
    await _first_of(limits.grace_seconds, protocol.exited, limits.stop.grace_over)


async def _first_of(seconds: float, *events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


async def _within(seconds: float, *events: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for event in events:
                await event.wait()

"""One run of the Pulumi CLI: own session, bounded output, deadline from outside, and nothing left behind.

The CLI starts its provider in a process group of its own, but in the same session; so it is the session that is
swept, after every run. The first SIGTERM goes to the CLI alone: it then tells the provider to stop, saves the state
and drops its lock, which a signal to the provider would spoil.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from reconciler.driver.sessions import end_session

OUTPUT_BYTES = 64 * 1024
"""How much of the end of each output stream is kept."""

_DRAIN_SECONDS = 5.0
_CHUNK_BYTES = 16 * 1024


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a run must end.

    Attributes:
        deadline: In `clock`'s seconds.
        grace_seconds: From SIGTERM to SIGKILL.
        stop: Set from outside to end it early.
        clock: Monotonic seconds.
    """

    deadline: float
    grace_seconds: float
    stop: asyncio.Event
    clock: Callable[[], float]


async def run_cli(argv: Sequence[str], *, environment: Mapping[str, str], directory: Path, limits: Limits) -> CliRun:
    """Run one CLI process to its end, whatever that takes.

    Not to be cancelled: set `limits.stop` instead, so that the state is saved.

    Raises:
        OSError: The executable cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd=directory,
        start_new_session=True,
    )
    outputs = [asyncio.create_task(_tail(stream)) for stream in (process.stdout, process.stderr) if stream is not None]
    ending = await _wait(process, limits)
    if ending is not Ending.EXITED:
        await _terminate(process, limits.grace_seconds)
    await end_session(process.pid)
    exit_code = await process.wait()
    await asyncio.wait(outputs, timeout=_DRAIN_SECONDS)
    stdout, stderr = (_text(output) for output in outputs)
    return CliRun(ending=ending, exit_code=exit_code, stdout=stdout, stderr=stderr)


async def _wait(process: asyncio.subprocess.Process, limits: Limits) -> Ending:
    exited = asyncio.create_task(process.wait())
    stopped = asyncio.create_task(limits.stop.wait())
    remaining = max(0.0, limits.deadline - limits.clock())
    try:
        await asyncio.wait({exited, stopped}, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
    finally:
        exited.cancel()
        stopped.cancel()
    if process.returncode is not None:
        return Ending.EXITED
    return Ending.STOPPED if limits.stop.is_set() else Ending.DEADLINE


async def _terminate(process: asyncio.subprocess.Process, grace_seconds: float) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), grace_seconds)
    except TimeoutError:
        return


async def _tail(stream: asyncio.StreamReader) -> bytes:
    kept = b""
    while chunk := await stream.read(_CHUNK_BYTES):
        kept = (kept + chunk)[-OUTPUT_BYTES:]
    return kept


def _text(output: asyncio.Task[bytes]) -> str:
    if not output.done():
        # Something that left the session holds the pipe open; what it may still say does not matter.
        output.cancel()
        return ""
    return output.result().decode(errors="replace")

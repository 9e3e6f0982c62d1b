"""Sessions of processes, from /proc: who belongs to one, and how to end all of it."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SWEEP_SECONDS = 5.0
_POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """What /proc/<pid>/stat says, as far as needed: `started` is in clock ticks after boot."""

    pid: int
    command: str
    state: str
    session: int
    started: int


def parse_stat(text: str) -> ProcessStat:
    """Parse the content of /proc/<pid>/stat (proc(5)); the command may itself hold spaces and parentheses.

    Raises:
        ValueError: It is not such a text.
    """
    head, _, tail = text.rpartition(")")
    pid, _, command = head.partition(" (")
    fields = tail.split()
    if len(fields) < 20:
        raise ValueError("not the content of a /proc/<pid>/stat")
    return ProcessStat(int(pid), command, fields[0], session=int(fields[3]), started=int(fields[19]))


def read_stat(pid: int) -> ProcessStat | None:
    """The process's entry, or None when there is no such process."""
    try:
        return parse_stat(Path(f"/proc/{pid}/stat").read_text(errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def session_members(session: int) -> list[int]:
    """Processes of a session that are not yet collected, zombies included."""
    stats = (read_stat(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [stat.pid for stat in stats if stat is not None and stat.session == session]


async def end_session(session: int) -> None:
    """Kill whatever is left of a session and see it gone, so that neither an orphan nor a zombie stays.

    Bounded: a process in an uninterruptible wait is left to the kernel after five seconds.
    """
    for _ in range(int(_SWEEP_SECONDS / _POLL_SECONDS)):
        members = session_members(session)
        if not members:
            return
        for pid in members:
            _kill_and_collect(pid, session)
        await asyncio.sleep(_POLL_SECONDS)


def _kill_and_collect(pid: int, session: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    if pid == session:
        # The leader is asyncio's child, which collects it.
        return
    # Orphans of the leader fall to us where we are process 1 of a container; elsewhere to init.
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)

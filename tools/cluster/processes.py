"""Processes that outlive the command which started them: started, recorded, recognized again, ended.

A process id alone says little, since the kernel uses it again. A record therefore also holds the start time, and
nothing is signalled whose start time differs.
"""

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.cluster.errors import ClusterError

_START_TIME_FIELD = 19  # proc(5): field 22 of stat, counted from the one after the command's name
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Process:
    """A process that cannot be mistaken for a later one with the same id.

    Attributes:
        pid: its id on the host.
        start_ticks: clock ticks between the machine's boot and its start.
    """

    pid: int
    start_ticks: int

    @property
    def is_alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return identify(self.pid) == self

    def kill(self) -> None:
        """End the process at once, if it is still this one."""
        with suppress(ProcessLookupError):
            if self.is_alive:
                os.kill(self.pid, signal.SIGKILL)

    def save(self, path: Path) -> None:
        """Write the record in one step."""
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(".tmp")
        scratch.write_text(json.dumps(asdict(self)))
        scratch.replace(path)


def parse_stat(stat: str) -> tuple[str, int]:
    """The state letter and the start time from a line of /proc/PID/stat.

    The command's name comes first, in parentheses, and may hold anything, so the last one is where parsing starts.
    """
    fields = stat.rpartition(")")[2].split()
    return fields[0], int(fields[_START_TIME_FIELD])


def identify(pid: int) -> Process | None:
    """The process that has this id now, unless it is dead or gone."""
    try:
        state, start_ticks = parse_stat(Path(f"/proc/{pid}/stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else Process(pid, start_ticks)


def load_process(path: Path) -> Process | None:
    """The recorded process, dead or alive; nothing where there is no record or half of one."""
    try:
        record = json.loads(path.read_text())
        return Process(pid=record["pid"], start_ticks=record["start_ticks"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def spawn(
    command: Sequence[str], log: Path, environment: Mapping[str, str] = os.environ, standard_input: int | None = None
) -> Process:
    """Start a process in a session of its own, its output going to a log.

    Args:
        command: absolute path of the program, then its arguments.
        log: appended to.
        environment: its variables.
        standard_input: a file descriptor it takes as its input; nothing to read by default.

    Raises:
        ClusterError: it ended before it could be looked at.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    take_input = (
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        if standard_input is None
        else (os.POSIX_SPAWN_DUP2, standard_input, 0)
    )
    write_log = (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    pid = os.posix_spawn(
        command[0],
        list(command),
        dict(environment),
        file_actions=[take_input, write_log, (os.POSIX_SPAWN_DUP2, 1, 2)],
        setsid=True,
    )
    process = identify(pid)
    if process is None:
        raise ClusterError(f"{command[0]} ended at once: see {log}")
    return process


def wait_until_dead(process: Process, timeout_seconds: float) -> bool:
    """Wait for a process that was killed.

    Returns:
        Whether it is gone.
    """
    deadline = time.monotonic() + timeout_seconds
    while process.is_alive:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True

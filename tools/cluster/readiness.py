"""Waiting for the cluster: every wait watches the processes too, and ends at once when one of them dies."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.errors import ComponentFailedError, NotReadyError
from tools.cluster.processes import Process

_POLL_SECONDS = 0.05
_SHOWN_LOG_LINES = 15


@dataclass(frozen=True)
class Watched:
    """Processes that must live while something is waited for, by name, and where their logs are."""

    processes: Mapping[str, Process]
    logs: Path


def wait_for(what: str, is_ready: Callable[[], bool], watched: Watched, timeout_seconds: float) -> None:
    """Wait until a condition holds.

    Args:
        what: the condition in words, for messages.
        is_ready: asks for it; must not block long.
        watched: the processes that it depends on.
        timeout_seconds: how long to wait at most.

    Raises:
        ComponentFailedError: a process died meanwhile.
        NotReadyError: the time is over.
    """
    deadline = time.monotonic() + timeout_seconds
    while not is_ready():
        check_alive(watched)
        if time.monotonic() > deadline:
            raise NotReadyError(f"{what} not ready after {timeout_seconds:.0f} s: see the logs in {watched.logs}")
        time.sleep(_POLL_SECONDS)


def check_alive(watched: Watched) -> None:
    """Make sure that every process lives.

    Raises:
        ComponentFailedError: one does not.
    """
    for name, process in watched.processes.items():
        if not process.is_alive:
            log = watched.logs / f"{name}.log"
            raise ComponentFailedError(f"{name} ended; the last lines of {log}:\n{last_lines(log)}")


def last_lines(log: Path) -> str:
    """The end of a log, which may be missing or hold any bytes."""
    if not log.exists():
        return "(no log)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-_SHOWN_LOG_LINES:])

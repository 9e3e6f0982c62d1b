"""Programs for the driver's tests. Worker processes import them by name, so they are module-level functions."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path


def declare_nothing() -> None:
    """Declare an empty stack."""


def declare_components(count: int) -> None:
    """Declare components, which need no provider."""
    import pulumi  # noqa: PLC0415 -- slow, and only workers need it

    for number in range(count):
        pulumi.ComponentResource("test:index:Part", f"part-{number}", {}, None)


def fail(message: str) -> None:
    """Raise, as a broken program does."""
    raise ValueError(message)


def print_to_stdout(text: str) -> None:
    """Write where a worker's messages would go, were it not prevented."""
    print(text, flush=True)  # noqa: T201 -- this is what is tested
    os.write(1, text.encode())


def hang_after_telling(path: Path) -> None:
    """Say that it runs, then never end."""
    path.touch()
    threading.Event().wait()


def kill_own_process() -> None:
    """Take the worker process down."""
    os.kill(os.getpid(), signal.SIGKILL)

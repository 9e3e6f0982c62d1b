"""How the tools' commands end: with a line that a person can use, never with a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

_INTERRUPTED = 130
"""As shells count: 128 and the number of SIGINT."""


def exit_code(command: str, run: Callable[[], int], *failures: type[Exception], next_step: str = "") -> int:
    """Run a command.

    Args:
        command: Its name, with which its last lines begin.
        run: Does the work and returns the exit code.
        failures: The exceptions that its users are to read. Those of the operating system always are: a full disk.
        next_step: What to do after a failure or Ctrl-C, in a sentence.

    Returns:
        What `run` returned; 1 after a failure and 130 after Ctrl-C, each told on standard error.
    """
    readable: tuple[type[Exception], ...] = (*failures, OSError)
    try:
        return run()
    except readable as error:
        return _told(1, f"{command}: {error}", *getattr(error, "__notes__", ()), next_step)
    except KeyboardInterrupt:
        return _told(_INTERRUPTED, f"\n{command}: interrupted.", next_step)


def _told(code: int, *lines: str) -> int:
    print("\n".join(filter(None, lines)), file=sys.stderr, flush=True)
    return code

"""Running the programs that do the work."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.images.errors import CommandFailedError, ProgramMissingError

_SHOWN_LINES = 20


def run(command: Sequence[str], directory: Path | None = None) -> str:
    """Run a program to its end.

    Returns:
        Its standard output.

    Raises:
        ProgramMissingError: it is not installed.
        CommandFailedError: it failed.
    """
    try:
        finished = subprocess.run(
            command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise ProgramMissingError(f"{command[0]} is missing: run python3 -m tools.toolchain packages") from error
    if finished.returncode != 0:
        output = "\n".join((finished.stdout + finished.stderr).splitlines()[-_SHOWN_LINES:])
        raise CommandFailedError(f"{command[0]} failed with exit code {finished.returncode}:\n{output}")
    return finished.stdout

"""The command line as a whole: `dmctl`, its groups, and how it ends."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import click

from cli.errors import ExitCode
from cli.gate.commands import gate
from cli.policy.commands import policy
from cli.preview.commands import preview
from cli.state.commands import state

_DEBUG: Final = "DMCTL_DEBUG"
"""The variable that has the traceback of a fault in dmctl shown."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def dmctl() -> None:
    """Answer questions about decision models."""


dmctl.add_command(gate)
dmctl.add_command(policy)
dmctl.add_command(state)
dmctl.add_command(preview)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Wrong usage is an error as well: 2, which click would return, means that something was refused. So is a fault of
    dmctl's own: 1, with which Python would end, means that something was found.
    """
    try:
        return _run(arguments)
    except OSError as error:
        told = f"Error: {error}. Make sure that what was named can be read, and the output be written."
    except Exception as error:  # noqa: BLE001 - last stop: a pipeline would take a traceback for findings
        told = _fault(error)
    _give_up_unwritable_output()
    with suppress(OSError):
        click.echo(told, err=True)
    return ExitCode.ERROR


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = dmctl.main(arguments, prog_name="dmctl", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return ExitCode.ERROR
    except (click.Abort, SystemExit):
        # click ends the process, and with 1, when whoever read the output has left.
        return ExitCode.ERROR
    return code if isinstance(code, int) else ExitCode.CLEAN


def _give_up_unwritable_output() -> None:
    """Drop what cannot be written: Python would try, and complain, once more at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fault(error: Exception) -> str:
    told = " ".join(f"{type(error).__name__}: {error}".split())
    line = f"Error: dmctl itself failed: {told}. Run it again with {_DEBUG}=1 for the traceback, and report that."
    return "".join([*traceback.format_exception(error), line]) if os.environ.get(_DEBUG) else line

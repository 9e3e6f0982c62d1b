"""The command line as a whole: `dmctl`, its groups, and how it ends."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import click

from cli.errors import ExitCode
from cli.texts import printable

_GROUPS: Final = ("gate", "policy", "preview", "state", "wait")
"""What is asked after `dmctl`; each is the click command of its name in `cli.<name>.commands`."""

_DEBUG: Final = "DMCTL_DEBUG"
"""The variable that has the traceback of a fault in dmctl shown."""

# The mark before the examples is click's: what follows it is not wrapped.
_HELP: Final = """Answer questions about decision models, before and after they are applied.

\b
  dmctl preview stacks/dev --offline   what would happen if this were applied
  dmctl policy check stacks/dev        whether the rules allow it
  dmctl gate plan --margin 0.02        how many golden items a gate needs
  dmctl gate show support-router       how a model was judged
  dmctl state check --backend URL      whether the engine's states are sound
  dmctl wait support-router            until it is what its spec asks for

Every command ends with 0 when all is as it should be, with 1 when something is not or would change, with 2 when
something may not be applied, and with 3 when it cannot tell; its last line says what to do then.
"""


class _LazyGroup(click.Group):
    """Imports only the command that is asked for: the others would be most of the time that an answer takes."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        return list(_GROUPS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - likewise
        if cmd_name not in _GROUPS:
            return None
        command: click.Command = getattr(importlib.import_module(f"cli.{cmd_name}.commands"), cmd_name)
        return command


@click.command(cls=_LazyGroup, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
def dmctl() -> None:
    """Group the commands."""


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
    told = printable(" ".join(f"{type(error).__name__}: {error}".split()))
    line = f"Error: dmctl itself failed: {told}. Run it again with {_DEBUG}=1 for the traceback, and report that."
    return "".join([*traceback.format_exception(error), line]) if os.environ.get(_DEBUG) else line

"""The command line as a whole: `dmctl`, its groups, and how it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from cli.errors import ExitCode
from cli.gate.commands import gate
from cli.policy.commands import policy
from cli.preview.commands import preview
from cli.state.commands import state


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def dmctl() -> None:
    """Answer questions about decision models."""


dmctl.add_command(gate)
dmctl.add_command(policy)
dmctl.add_command(state)
dmctl.add_command(preview)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Wrong usage is an error as well: 2, which click would return, means that something was refused.
    """
    try:
        code = dmctl.main(arguments, prog_name="dmctl", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return ExitCode.ERROR
    except click.Abort:
        return ExitCode.ERROR
    except BrokenPipeError:
        # Whoever read the output has left. Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.ERROR
    return code if isinstance(code, int) else ExitCode.CLEAN

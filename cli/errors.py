"""How a command ends (exit codes) and the one kind of error that it ends with."""

from __future__ import annotations

from enum import IntEnum

import click

from cli.texts import printable


class ExitCode(IntEnum):
    """What a pipeline learns without reading anything."""

    CLEAN = 0
    FINDINGS = 1
    """What was asked about is not as it should be."""
    REFUSED = 2
    """What was asked about must not be applied."""
    ERROR = 3
    """The question could not be answered: unusable input or wrong usage."""


class InputError(click.ClickException):
    """Something that was given cannot be used; the message names it and, within a file, the line.

    It has the lines that it is made of and no others: what is quoted in one may hold anything.
    """

    exit_code = ExitCode.ERROR

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(map(printable, lines)))

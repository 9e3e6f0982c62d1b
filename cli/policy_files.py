"""The policy configuration that a command names."""

from __future__ import annotations

from typing import BinaryIO

from cli.errors import InputError
from cli.manifests.sources import read_document
from policy import Configuration, PolicyConfigurationError, read_configuration


def read_policy_file(file: str | None, environment: str | None, stdin: BinaryIO) -> Configuration:
    """Read the rules of an environment from a file, `-` for standard input, or take the defaults without one.

    Raises:
        InputError: It cannot be read or used; one line for each wrong key.
    """
    document = None if file is None else read_document(file, stdin)
    try:
        return read_configuration(document, environment)
    except PolicyConfigurationError as error:
        lines = (f"{file}: {line}" for line in str(error).splitlines())
        raise InputError("\n".join(lines)) from error

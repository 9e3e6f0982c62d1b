"""The policy configuration that a command names."""

from __future__ import annotations

from typing import BinaryIO

from cli.errors import InputError
from cli.manifests.sources import read_document
from policy import Configuration, PolicyConfigurationError, read_configuration, unnamed_environments


def read_policy_file(
    file: str | None, environment: str | None, stdin: BinaryIO, option: str = "--environment"
) -> Configuration:
    """Read the rules of an environment from a file, `-` for standard input, or take the defaults without one.

    Args:
        file: The file; None for the defaults.
        environment: One of the file's environments, which has to be said if it lists any.
        stdin: Standard input.
        option: The option that says which.

    Raises:
        InputError: It cannot be read or used; one line for each wrong key.
    """
    document = None if file is None else read_document(file, stdin)
    if listed := unnamed_environments(document, environment):
        raise InputError(f"{file}: has rules for environments. Name one of them with {option}: {', '.join(listed)}.")
    try:
        return read_configuration(document, environment)
    except PolicyConfigurationError as error:
        raise unusable_policy(str(file), error) from error


def unusable_policy(file: str, error: PolicyConfigurationError) -> InputError:
    """Return the error about a file that says what is wrong in it, one line for each wrong key."""
    return InputError(*(f"{file}: {problem}" for problem in error.problems))

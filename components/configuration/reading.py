"""Reads the values of a stack into its typed configuration, or says what is wrong with each of them.

Every key of the project's own namespace is read, so a misspelt one is an error that names it and never a setting that
silently does nothing. Nothing here is secret: the platform references Secrets by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from components.configuration.platform import PlatformConfiguration
from components.errors import ComponentsError


class ConfigurationError(ComponentsError):
    """The stack's configuration cannot be used; the message names its file, and each key that is wrong in a line.

    Attributes:
        summary: The first line.
        problems: Those of the keys. A key may hold line breaks of its own, so the message does not give them back.
    """

    def __init__(self, summary: str, *problems: str) -> None:
        super().__init__("\n  ".join((summary, *problems)))
        self.summary = summary
        self.problems = problems


def read_configuration(project: str, stack: str, values: Mapping[str, Any]) -> PlatformConfiguration:
    """Return the configuration of a stack.

    Args:
        project: the project, whose name is the namespace of the keys that are read; other namespaces belong to others.
        stack: the stack, which is named in messages.
        values: every configuration value of the stack by its full key, `project:key`.

    Raises:
        ConfigurationError: a key is unknown or missing, or its value is not usable.
    """
    prefix = f"{project}:"
    own = {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
    try:
        return PlatformConfiguration.model_validate(own)
    except ValidationError as error:
        problems = [_line(prefix, each) for each in error.errors()]
        raise ConfigurationError(f"stacks/Pulumi.{stack}.yaml cannot be used:", *problems) from error


def _line(prefix: str, problem: Mapping[str, Any]) -> str:
    key = prefix + ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{key}: there is no such key"
    if problem["type"] == "missing":
        return f"{key}: is missing"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{key}{message}" if key == prefix else f"{key}: {message}"

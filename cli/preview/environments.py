"""What an environment's reconciler is told, read from its stack's configuration without Pulumi."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from cli.errors import InputError
from cli.manifests.sources import read_document
from components.configuration import ConfigurationError, PlatformConfiguration, PolicyRules, read_configuration
from policy import Configuration, PolicyConfigurationError
from policy.navigation import mapping, text
from reconciler.controller.settings import ControllerSettings
from reconciler.engine.proxy import ProxySettings, inherited_proxy
from reconciler.options import controller_settings, declared
from reconciler.policy_file import read_policy

_PROJECT_FILE: Final = "Pulumi.yaml"
_STACKS: Final = "stacks"
_STACK_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_FROM_ENVIRONMENT: Final = {"--ollaya-registry": "OLLAYA_REGISTRY", "--ollaya-hf-endpoint": "OLLAYA_HF_ENDPOINT"}
"""Flags that the reconciler also takes from its container's variables."""


@dataclass(frozen=True, slots=True)
class PreviewedEnvironment:
    """An environment's reconciler, the rules that it enforces if there are any, and the files with its models."""

    settings: ControllerSettings
    policy: Configuration | None
    files: tuple[str, ...]


def default_settings() -> ControllerSettings:
    """Return the settings of a reconciler that was told nothing."""
    return _settings((), {}, ProxySettings())


def read_environment(stack: str, stdin: BinaryIO) -> PreviewedEnvironment:
    """Return the environment `stack` of the Pulumi project around the working directory.

    Raises:
        InputError: There is no such project or stack, or its configuration cannot be used.
    """
    if not _STACK_NAME.fullmatch(stack):
        raise InputError(f"{stack[:80]!r} cannot be the name of a stack")
    root = _project_root()
    project = mapping(read_document(str(root / _PROJECT_FILE), stdin))
    directory = root / (text(project.get("stackConfigDir")) or ".")
    file = directory / f"Pulumi.{stack}.yaml"
    values = mapping(mapping(read_document(str(file), stdin)).get("config"))
    try:
        configuration = read_configuration(text(project.get("name")), stack, values)
        settings = _of(configuration)
        policy = _policy(configuration.policy, root / _STACKS, stack, settings)
    except (ConfigurationError, PolicyConfigurationError) as error:
        raise InputError(str(error)) from error
    except click.UsageError as error:
        raise InputError(f"{file}: {error.format_message()}") from error
    models = root / _STACKS / (configuration.models or stack)
    return PreviewedEnvironment(settings, policy, tuple(map(os.path.relpath, sorted(models.glob("*.yaml")))))


def _policy(rules: PolicyRules, directory: Path, stack: str, settings: ControllerSettings) -> Configuration | None:
    """Read the rules as the reconciler does, over what its flags permit."""
    if rules.file is None:
        return None
    return read_policy(directory / rules.file, rules.environment or stack, settings)


def _project_root() -> Path:
    here = Path.cwd()
    for directory in (here, *here.parents):
        if (directory / _PROJECT_FILE).is_file():
            return directory
    raise InputError(f"{here} is in no Pulumi project: there is no {_PROJECT_FILE}, so --stack means nothing here")


def _of(configuration: PlatformConfiguration) -> ControllerSettings:
    proxy = configuration.proxy
    variables = {"HTTP_PROXY": proxy.http_proxy, "HTTPS_PROXY": proxy.https_proxy, "NO_PROXY": proxy.no_proxy}
    inherited = ProxySettings() if proxy.existing_secret else inherited_proxy(variables)
    return _settings(configuration.manager.arguments(), configuration.environment, inherited)


def _settings(
    arguments: list[str] | tuple[str, ...], environment: Mapping[str, str], proxy: ProxySettings
) -> ControllerSettings:
    """Read the flags as the reconciler does, but never from the variables of whoever asks for a preview.

    Raises:
        click.UsageError: A flag cannot be used.
    """
    explicit = [f"{flag}={environment.get(variable, '')}" for flag, variable in _FROM_ENVIRONMENT.items()]
    flags: dict[str, Any] = _command().make_context("reconciler", [*explicit, *arguments]).params
    return controller_settings(flags, proxy)


def _command() -> click.Command:
    @click.command()
    @declared
    def reconciler(**_: Any) -> None:
        """Stand for the reconciler, whose flags these are."""

    return reconciler

"""What an environment's reconciler is told, read from its stack's configuration without Pulumi."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from cli.errors import InputError
from cli.manifests.sources import read_document
from cli.policy_files import unusable_policy
from components.configuration import ConfigurationError, PlatformConfiguration, PolicyRules, read_configuration
from components.environment import ModelManifestError, model_files
from policy import Configuration, PolicyConfigurationError
from policy.navigation import mapping, text
from reconciler.controller.settings import ControllerSettings
from reconciler.engine.proxy import ProxySettings, inherited_proxy
from reconciler.options import controller_settings, declared
from reconciler.policy_file import enforced, read_policy, unenforced
from reconciler.watched_namespaces import parse_namespaces

_PROJECT_FILE: Final = "Pulumi.yaml"
_STACKS: Final = "stacks"
_STACK_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_FROM_ENVIRONMENT: Final = {"--ollaya-registry": "OLLAYA_REGISTRY", "--ollaya-hf-endpoint": "OLLAYA_HF_ENDPOINT"}
"""Flags that the reconciler also takes from its container's variables."""


@dataclass(frozen=True, slots=True)
class PreviewedEnvironment:
    """An environment's reconciler, the rules that it enforces, and the directory with its models.

    Attributes:
        watched: The namespaces that it looks after; none for all.
    """

    settings: ControllerSettings
    watched: tuple[str, ...]
    policy: Configuration
    models: Path

    def files(self) -> tuple[str, ...]:
        """Return the files of its models, which `pulumi up` reads.

        Raises:
            InputError: There are none, or something that it would not read.
        """
        try:
            return tuple(map(os.path.relpath, model_files(self.models)))
        except ModelManifestError as error:
            raise InputError(str(error)) from error


def default_settings() -> ControllerSettings:
    """Return the settings of a reconciler that was told nothing."""
    return settings_of((), {}, ProxySettings())


def read_environment(stack: str, policy_file: str | None, stdin: BinaryIO) -> PreviewedEnvironment:
    """Return the environment `stack` of the Pulumi project around the working directory.

    Args:
        stack: Its stack.
        policy_file: A file with rules in the place of its own; None for those.
        stdin: What is read for `-`.

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
        if policy_file is not None:
            policy = _policy_instead(policy_file, configuration.policy.environment or stack, settings, stdin)
    except ConfigurationError as error:
        # With a list of its keys: one that holds a line break must not begin a line either.
        raise InputError(error.summary, *(f"- {problem}" for problem in error.problems)) from error
    except PolicyConfigurationError as error:
        raise InputError(*error.problems) from error
    except click.UsageError as error:
        raise InputError(f"{file}: {error.format_message()}") from error
    return PreviewedEnvironment(
        settings=settings,
        watched=configuration.manager.watch_namespaces,
        policy=policy,
        models=root / _STACKS / (configuration.models or stack),
    )


def _policy(rules: PolicyRules, directory: Path, stack: str, settings: ControllerSettings) -> Configuration:
    """Read the rules as the reconciler does, over what its flags permit."""
    if rules.file is None:
        return unenforced(settings)
    return read_policy(directory / rules.file, rules.environment or stack, settings)


def _policy_instead(file: str, environment: str, settings: ControllerSettings, stdin: BinaryIO) -> Configuration:
    """Read another file in the place of the one that the reconciler reads."""
    document = read_document(file, stdin)
    if document is not None and not isinstance(document, dict):
        raise InputError(f"{file}: must be a mapping with `rules` and `environments`")
    try:
        return enforced(document or {}, environment, settings)
    except PolicyConfigurationError as error:
        raise unusable_policy(file, error) from error


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
    return settings_of(configuration.manager.arguments(), configuration.environment, inherited)


def settings_of(
    arguments: Sequence[str], environment: Mapping[str, str], proxy: ProxySettings, *, without: Sequence[str] = ()
) -> ControllerSettings:
    """Read the flags as the reconciler does, but never from the variables of whoever asks for a preview.

    Args:
        arguments: The reconciler's.
        environment: The variables of its container.
        proxy: What it lets prefetch Jobs inherit.
        without: Flags that are taken as not given.

    Raises:
        click.UsageError: A flag cannot be used.
    """
    explicit = [f"{flag}={environment.get(variable, '')}" for flag, variable in _FROM_ENVIRONMENT.items()]
    return controller_settings({**_flags([*explicit, *arguments]), **dict.fromkeys(without)}, proxy)


def watched_of(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the namespaces that a reconciler with these flags looks after; none for all.

    Raises:
        click.UsageError: A flag cannot be used.
    """
    return parse_namespaces(_flags(arguments)["watch_namespaces"])


def _flags(arguments: Sequence[str]) -> dict[str, Any]:
    return _command().make_context("reconciler", [*arguments]).params


def _command() -> click.Command:
    @click.command()
    @declared
    def reconciler(**_: Any) -> None:
        """Stand for the reconciler, whose flags these are."""

    return reconciler

"""What the live reconciler was told, for a preview that names no environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from cli.connection import Reader
from cli.preview.environments import settings_of, watched_of
from components.platform.metadata import MANAGER_NAME, SYSTEM_NAMESPACE
from policy.navigation import at, mapping, sequence, text
from reconciler.controller.settings import ControllerSettings
from reconciler.controller.watched import DEPLOYMENTS
from reconciler.engine.proxy import inherited_proxy
from reconciler.kernel.errors import KubernetesError

_ELSEWHERE: Final = ("policy_config", "policy_environment", "kubeconfig")
"""Flags that name files of the reconciler's Pod, which are not here."""


@dataclass(frozen=True, slots=True)
class LiveReconciler:
    """The reconciler's settings, the namespaces that it looks after, and whether it enforces rules of its own."""

    settings: ControllerSettings
    watched: tuple[str, ...]
    enforces_rules: bool


async def live_reconciler(reader: Reader) -> LiveReconciler | str:
    """Return what the Deployment of the cluster's reconciler says, or why that cannot be told."""
    place = f"Deployment {SYSTEM_NAMESPACE}/{MANAGER_NAME}"
    try:
        deployment = await reader.get(DEPLOYMENTS, SYSTEM_NAMESPACE, MANAGER_NAME)
    except KubernetesError as error:
        return f"{place} cannot be read: {error}"
    if deployment is None:
        return f"there is no {place}"
    containers = map(mapping, sequence(at(deployment, "spec", "template", "spec", "containers")))
    container = next((each for each in containers if each.get("args")), mapping(None))
    return _read(place, [text(each) for each in sequence(at(container, "args"))], _variables(at(container, "env")))


def _read(place: str, arguments: list[str], variables: Mapping[str, str]) -> LiveReconciler | str:
    try:
        settings = settings_of(arguments, variables, inherited_proxy(variables), without=_ELSEWHERE)
        watched = watched_of(arguments)
    except click.UsageError as error:
        return f"the arguments in {place} are not those of this version: {error.format_message()}"
    return LiveReconciler(settings, watched, any(each.startswith("--policy-config") for each in arguments))


def _variables(entries: Any) -> Mapping[str, str]:
    """Return the variables whose values are there; those that come from Secrets stay unknown."""
    named: Iterable[Mapping[str, Any]] = map(mapping, sequence(entries))
    return {text(each.get("name")): text(each.get("value")) for each in named if "value" in each}

"""The policy rules that the reconciler enforces: a file, over what the flags permit already."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from policy import RULES, Configuration, Level, PolicyConfigurationError, read_configuration, unnamed_environments
from policy.file import read_document
from reconciler.controller.settings import ControllerSettings

_DISABLED: Final = {"level": Level.DISABLED}


def read_policy(path: Path, environment: str | None, permitted: ControllerSettings) -> Configuration:
    """Read the rules of an environment; a rule that the file does not mention never forbids what the flags permit.

    Args:
        path: YAML as `dmctl policy check --config` takes it (docs/policy.md).
        environment: Which of the file's environments, which has to be said if it lists any.
        permitted: The flags.

    Raises:
        PolicyConfigurationError: The file cannot be read or used; the message says what is wrong with which key.
    """
    return enforced(read_document(path), environment, permitted)


def enforced(document: Mapping[str, Any], environment: str | None, permitted: ControllerSettings) -> Configuration:
    """Return the same of a file's content.

    Raises:
        PolicyConfigurationError: It cannot be used; the message says what is wrong with which key.
    """
    rules = document.get("rules") or {}
    if not isinstance(rules, dict):
        raise PolicyConfigurationError("rules: must be a mapping from rules to their settings")
    if listed := unnamed_environments(document, environment):
        raise PolicyConfigurationError(f"environments: name one of them with --policy-environment: {', '.join(listed)}")
    merged = {**_permissions(permitted), **rules}
    return read_configuration({**document, "rules": merged}, environment)


def unenforced(permitted: ControllerSettings) -> Configuration:
    """Return the rules for a reconciler without a file: they may find something, and hold up nothing."""
    permissions = _permissions(permitted)
    held_up_by = [rule.id for rule in RULES if rule.level is Level.MANDATORY]
    advisory = {rule: {"level": Level.ADVISORY, **permissions.get(rule, {})} for rule in held_up_by}
    return read_configuration({"rules": {**permissions, **advisory}})


def _permissions(permitted: ControllerSettings) -> Mapping[str, Any]:
    """Return the settings that follow from the flags."""
    registries = permitted.registries
    rules: dict[str, Any] = {
        "model-registry-allowed": {"allowed": sorted(registries.allowed), "registry": registries.registry_url}
    }
    if registries.allow_insecure:
        rules["registry-uses-tls"] = _DISABLED
    if permitted.allow_image_override:
        rules |= dict.fromkeys(("custom-image-allowed", "image-registry-allowed"), _DISABLED)
    if permitted.allow_image_override or permitted.allow_unpinned_images:
        rules["image-pinned-by-digest"] = _DISABLED
    return rules

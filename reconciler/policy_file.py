"""The policy rules that the reconciler enforces: a file, over what the flags permit already."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from policy import Configuration, PolicyConfigurationError, read_configuration
from policy.file import read_document
from reconciler.controller.settings import ControllerSettings

_DISABLED: Final = {"level": "disabled"}


def read_policy(path: Path, environment: str | None, permitted: ControllerSettings) -> Configuration:
    """Read the rules of an environment; a rule that the file does not mention never forbids what the flags permit.

    Args:
        path: YAML as `dmctl policy check --config` takes it (docs/policy.md).
        environment: Which of the file's environments; None for what is said for all.
        permitted: The flags.

    Raises:
        PolicyConfigurationError: The file cannot be read or used; the message says what is wrong with which key.
    """
    document = read_document(path)
    rules = document.get("rules") or {}
    if not isinstance(rules, dict):
        raise PolicyConfigurationError("rules: must be a mapping from rules to their settings")
    merged = {**_permissions(permitted), **rules}
    return read_configuration({**document, "rules": merged}, environment)


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

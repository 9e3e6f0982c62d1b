"""The policy rules that the reconciler enforces: a file, over what the flags permit already."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from policy import Configuration, PolicyConfigurationError, read_configuration
from reconciler.controller.settings import ControllerSettings

SIZE_LIMIT: Final = 1 << 18
"""Bytes of the file."""

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
    document = _document(path)
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


def _document(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > SIZE_LIMIT:
            raise PolicyConfigurationError(f"{path}: more than {SIZE_LIMIT} bytes")
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyConfigurationError(f"{path}: {error}") from error
    except yaml.YAMLError as error:
        raise PolicyConfigurationError(f"{path}: no YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise PolicyConfigurationError(f"{path}: must be a mapping with `rules` and `environments`")
    return document

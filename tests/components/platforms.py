"""Platforms by their configuration, for tests of what is rendered."""

from __future__ import annotations

from typing import Any

from components.configuration import PlatformConfiguration
from components.platform.manifests import platform_manifests
from components.platform.policy import EnforcedPolicy

OPERATOR = "decision-model-operator"
SYSTEM = "decision-model-operator-system"


def rendered(**configuration: Any) -> list[dict[str, Any]]:
    """Every object of a platform; `configuration` adds to the least there can be, and rules are read as their name."""
    given = PlatformConfiguration.model_validate({"image": "reconciler:1", **configuration})
    rules = given.policy
    policy = EnforcedPolicy(rules.file, rules.environment or "stack") if rules.file else None
    return [dict(manifest) for manifest in platform_manifests(given, policy)]


def object_key(manifest: dict[str, Any]) -> tuple[str, str | None, str]:
    """Kind, namespace and name."""
    return manifest["kind"], manifest["metadata"].get("namespace"), manifest["metadata"]["name"]


def one(kind: str, name: str | None = None, **configuration: Any) -> dict[str, Any]:
    """The only object of a kind, or the one of that name."""
    (found,) = (
        manifest
        for manifest in rendered(**configuration)
        if manifest["kind"] == kind and name in {None, manifest["metadata"]["name"]}
    )
    return found


def pod(**configuration: Any) -> dict[str, Any]:
    """The spec of the reconciler's Pod."""
    spec: dict[str, Any] = one("Deployment", **configuration)["spec"]["template"]["spec"]
    return spec

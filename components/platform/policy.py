"""The rules that the reconciler enforces, as a ConfigMap that its Pod mounts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from components.desired import JsonObject
from components.platform.metadata import NAME, metadata

_CONFIG_MAP_NAME: Final = f"{NAME}-policy"
_VOLUME_NAME: Final = "policy"
_KEY: Final = "policy.yaml"
_DIRECTORY: Final = "/etc/decisionmodel/policy"


@dataclass(frozen=True, slots=True)
class EnforcedPolicy:
    """A file of rules, known to be usable.

    Attributes:
        text: The file as it stands.
        environment: Which of its environments applies.
    """

    text: str
    environment: str

    def config_map(self) -> JsonObject:
        """Return the object that brings the file to the reconciler."""
        metadata_ = metadata(_CONFIG_MAP_NAME)
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata_, "data": {_KEY: self.text}}

    def annotations(self) -> dict[str, str]:
        """Return what makes a new Pod of other rules: they are read once, at the start."""
        return {"checksum/policy": hashlib.sha256(self.text.encode()).hexdigest()}

    def arguments(self) -> list[str]:
        """Return the reconciler's flags."""
        return [f"--policy-config={_DIRECTORY}/{_KEY}", f"--policy-environment={self.environment}"]

    def mount(self) -> dict[str, Any]:
        """Return where the container finds the file."""
        return {"name": _VOLUME_NAME, "mountPath": _DIRECTORY, "readOnly": True}

    def volume(self) -> dict[str, Any]:
        """Return the Pod's volume with the file."""
        return {"name": _VOLUME_NAME, "configMap": {"name": _CONFIG_MAP_NAME}}

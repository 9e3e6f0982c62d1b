"""How the platform's own objects are called and labelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

NAME: Final = "decision-model-operator"
SYSTEM_NAMESPACE: Final = f"{NAME}-system"
MANAGER_NAME: Final = f"{NAME}-controller-manager"
METRICS_SERVICE_NAME: Final = f"{MANAGER_NAME}-metrics-service"
STATE_CLAIM_NAME: Final = f"{NAME}-state"

LABELS: Final[Mapping[str, str]] = {"app.kubernetes.io/name": NAME}
MANAGER_LABELS: Final[Mapping[str, str]] = {**LABELS, "control-plane": "controller-manager"}
"""What the reconciler's Pods are found by."""


def metadata(
    name: str,
    namespace: str | None = SYSTEM_NAMESPACE,
    labels: Mapping[str, str] = LABELS,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the metadata of an object; without a namespace it belongs to the whole cluster."""
    scope = {"namespace": namespace} if namespace else {}
    notes = {"annotations": dict(annotations)} if annotations else {}
    return {"name": name, **scope, "labels": dict(labels), **notes}

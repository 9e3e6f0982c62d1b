"""What a stack's state calls the things that a stack consists of. Parts of every URN, so they never change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PROVIDER_NAME: Final = "kubernetes"
PROVIDER_TYPE: Final = "pulumi:providers:kubernetes"
STACK_TYPE: Final = "pulumi:pulumi:Stack"
MODEL_TYPE: Final = "decisionmodel:index:Model"
REVISION_TYPE: Final = "decisionmodel:index:Revision"

API_VERSIONS: Final[Mapping[str, str]] = {
    "PersistentVolumeClaim": "v1",
    "Job": "batch/v1",
    "Deployment": "apps/v1",
    "PodDisruptionBudget": "policy/v1",
    "Service": "v1",
}
"""API version of each managed kind, as it is rendered."""


def type_token(kind: str) -> str:
    """Return the engine's type of a managed kind."""
    version = API_VERSIONS[kind]
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{kind}"

"""The DecisionModel object itself (spec section 1)."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field

from api import keys
from api.base import ApiModel, Timestamp
from api.rules import Rule
from api.spec import DecisionModelSpec
from api.status import DecisionModelStatus

_NAME_PATTERN = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
_LONGEST_NAME = 43


class ObjectMeta(ApiModel):
    """The object metadata the platform reads (metav1.ObjectMeta)."""

    name: str = ""
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class DecisionModel(ApiModel):
    """Serves one decision model, and keeps serving it while newer revisions prove themselves."""

    rules = (
        Rule(
            f"self.metadata.name.matches('{_NAME_PATTERN}')",
            "metadata.name must start with a letter and hold only lower-case letters, digits and dashes:"
            " it becomes a Service's name",
            lambda self: re.fullmatch(_NAME_PATTERN, self.metadata.name) is not None,
        ),
        Rule(
            f"size(self.metadata.name) <= {_LONGEST_NAME}",
            f"metadata.name must have at most {_LONGEST_NAME} characters: the names of its Jobs are derived from it",
            lambda self: len(self.metadata.name) <= _LONGEST_NAME,
        ),
    )

    api_version: Literal["decisionmodel.io/v1alpha1"] = keys.API_VERSION
    kind: Literal["DecisionModel"] = keys.KIND
    metadata: ObjectMeta
    spec: DecisionModelSpec
    status: DecisionModelStatus = DecisionModelStatus()

    @property
    def namespaced_name(self) -> str:
        """`namespace/name`, by which the object is known in queues and logs."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def dump(self) -> dict[str, Any]:
        """Return the API's JSON, as every model does, with the kind that every object must name."""
        return {"apiVersion": self.api_version, "kind": self.kind, **super().dump()}

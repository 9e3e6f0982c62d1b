"""References to one key of an object in the DecisionModel's own namespace."""

from __future__ import annotations

from api.base import ApiModel
from api.bounds import ObjectName
from api.rules import Rule


class KeyReference(ApiModel):
    """One key of a ConfigMap or Secret."""

    name: ObjectName
    """The object's name."""
    key: ObjectName
    """The key within it."""


class ApiKeyReference(KeyReference):
    """The Secret key that clients of the runtime must present."""

    rules = (
        Rule(
            "!has(self.optional) || !self.optional",
            "optional must not be true: without the key the runtime would serve everyone",
            lambda self: not self.optional,
        ),
    )

    optional: bool | None = None
    """Only false is allowed; the field exists because core/v1 SecretKeySelector has it."""

"""What a rule found, as a frozen value for programs, reports and the engine alike."""

from __future__ import annotations

from dataclasses import dataclass

from policy.navigation import JsonObject, Path, at, rendered, text
from policy.rule import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectReference:
    """What identifies the object that a finding is about; empty where the manifest says nothing."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, manifest: JsonObject) -> ObjectReference:
        """Return the reference of a manifest."""
        metadata = at(manifest, "metadata")
        return cls(
            kind=text(at(manifest, "kind")), namespace=text(at(metadata, "namespace")), name=text(at(metadata, "name"))
        )

    def __str__(self) -> str:
        name = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.kind} {name or '(without a name)'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One breach of one rule.

    Attributes:
        rule: The rule's id.
        level: Mandatory or advisory, as configured.
        object: What is at fault.
        path: Where in it.
        message: What is wrong there, without the rule's general reasons.
        position: The index of the object among the manifests that were checked.
    """

    rule: str
    level: Level
    object: ObjectReference
    path: Path
    message: str
    position: int

    @property
    def where(self) -> str:
        """The path as people write it."""
        return rendered(self.path)

    def __str__(self) -> str:
        return f"{self.object}: {self.where}: {self.message} [{self.rule}]"

"""Which policy rules an environment's reconciler enforces before it applies anything."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from components.configuration.section import Section


class PolicyRules(Section):
    """Rules beyond what the reconciler's own flags permit (docs/policy.md)."""

    file: Annotated[str, Field(min_length=1)] | None = None
    """A file under `stacks/` with their levels and parameters; without one none is enforced."""
    environment: Annotated[str, Field(min_length=1)] | None = None
    """Which of that file's environments this is; the stack's name when unset."""

    @model_validator(mode="after")
    def _environments_are_of_a_file(self) -> Self:
        if self.environment is not None and self.file is None:
            raise ValueError("environment: is one of policy.file's, which is not set")
        return self

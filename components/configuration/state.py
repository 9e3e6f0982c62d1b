"""Where the engine keeps the stacks of an environment's models."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import StringConstraints, model_validator

from api.quantity import Quantity
from components.configuration.section import ObjectName, Section


class S3State(Section):
    """A bucket for the engine's state."""

    bucket: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$")] | None = None
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$")] | None = None
    endpoint: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.-]+(:[0-9]+)?$")] | None = None
    """Host and port of another server than Amazon's."""
    disable_tls: bool = False
    force_path_style: bool = False
    credentials_secret: ObjectName | None = None
    """A Secret with `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`; without one the Pod's account has to do."""


class StateVolume(Section):
    """Where the engine keeps the models' stacks.

    A bucket; or a claim of this size; or, with neither, a volume that lives as long as the Pod. Losing it costs no
    model: the reconciler takes its objects over again by name and owner.
    """

    size: Quantity | None = None
    storage_class_name: str | None = None
    s3: S3State | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.s3 and (self.size or self.storage_class_name):
            raise ValueError("size and storageClassName are of a volume, and s3 needs none: set one or the other")
        if self.storage_class_name and not self.size:
            raise ValueError("storageClassName means nothing without size")
        return self

"""Every key of an environment's configuration, by its full name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from components.configuration import PlatformConfiguration
from components.configuration.section import Section


def section_of(field: FieldInfo) -> type[Section] | None:
    """The section that a key opens, if it opens one."""
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, Section):
            return kind
    return None


def keys(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key that holds a value, with its dots."""
    for field in section.model_fields.values():
        inner = section_of(field)
        if inner is None:
            yield f"{prefix}{field.alias}", field
        else:
            yield from keys(inner, f"{prefix}{field.alias}.")


KEYS = dict(keys(PlatformConfiguration))

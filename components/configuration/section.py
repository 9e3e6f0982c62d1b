"""What every section of an environment's configuration has in common, and the texts that more than one section uses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    StringConstraints,
    ValidatorFunctionWrapHandler,
)

from api.frozen import FrozenModel


class Section(FrozenModel):
    """A frozen group of keys; a key that it does not have is refused."""

    model_config = ConfigDict(extra="forbid")


def _from_json(value: Any) -> Any:
    """Return what a text stands for: the engine hands over objects and lists as JSON texts."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"expected an object or a list, got {value[:64]!r}") from error


FROM_JSON = BeforeValidator(_from_json)

ObjectName = Annotated[str, StringConstraints(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""The name of a Kubernetes object, for example of a Secret."""

NamespaceName = Annotated[str, StringConstraints(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names without repetitions: each becomes objects, and no two may be the same."""
    return tuple(dict.fromkeys(names))


Namespaces = Annotated[tuple[NamespaceName, ...], AfterValidator(_once)]


def nothing_ignored(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Refuse fields that a model of the declared API would drop, as the API server drops them.

    Raises:
        ValueError: there are such fields; the message names them.
    """
    model = handler(value)
    unknown = [*_unknown(value, model.model_dump(mode="json", exclude_unset=True))]
    if unknown:
        raise ValueError(f"there is no such field: {', '.join(unknown)}")
    return model


def _unknown(given: Any, known: Any, path: str = "") -> Iterator[str]:
    if isinstance(given, dict):
        for key, value in given.items():
            if value is None:
                continue
            if key not in known:
                yield f"{path}{key}"
            else:
                yield from _unknown(value, known[key], f"{path}{key}.")
    elif isinstance(given, list):
        for number, (value, kept) in enumerate(zip(given, known, strict=True)):
            yield from _unknown(value, kept, f"{path}{number}.")

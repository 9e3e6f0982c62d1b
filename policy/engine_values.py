"""Resources as the Pulumi engine hands them to a policy, read back into manifests.

Two things differ from a manifest: every number is a float, and what is not known in a preview raises when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pulumi_policy.proxy import UnknownValueError

_KUBERNETES: Final = "kubernetes:"
_JUDGED: Final = ("apiVersion", "kind", "metadata", "spec")
# Names are often made by the engine, and no rule asks more of them than to be equal.
_IRRELEVANT: Final = (["metadata", "name"], ["metadata", "namespace"])


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource.

    Attributes:
        manifest: The parts of it that rules judge; unknown values are left out.
        unknown: What was left out, names of objects excepted.
    """

    manifest: Mapping[str, Any]
    unknown: tuple[UnknownValueError, ...]

    def check_known(self) -> None:
        """Raise the SDK's own error, which the engine reports as a policy that could not run, if anything is unknown.

        Raises:
            UnknownValueError: A value is not known yet.
        """
        if self.unknown:
            raise self.unknown[0]


def read_resource(resource_type: str, properties: Mapping[str, Any]) -> Resource | None:
    """Return a Kubernetes resource; None for resources of other providers, and for components."""
    if not resource_type.startswith(_KUBERNETES):
        return None
    unknown: list[UnknownValueError] = []
    manifest = {key: _item(properties, key, unknown) for key in _JUDGED if key in properties}
    return Resource(manifest, tuple(error for error in unknown if error.props not in _IRRELEVANT))


def stack_of(urn: str) -> str:
    """Return the stack's name in `urn:pulumi:<stack>::<project>::<type>::<name>`."""
    return urn.removeprefix("urn:pulumi:").partition("::")[0]


def _item(container: Any, key: Any, unknown: list[UnknownValueError]) -> Any:
    try:
        value = container[key]
    except UnknownValueError as error:
        unknown.append(error)
        return None
    return _read(value, unknown)


def _read(value: Any, unknown: list[UnknownValueError]) -> Any:
    match value:
        case Mapping():
            return {key: _item(value, key, unknown) for key in value}
        case float() if value.is_integer():
            return int(value)
        case str():
            return value
        case Sequence():
            return [_item(value, index, unknown) for index in range(len(value))]
    return value

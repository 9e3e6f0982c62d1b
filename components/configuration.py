"""What an environment may configure: the typed form of `stacks/Pulumi.<environment>.yaml`.

Every key of the project's own namespace is read, so a misspelt one is an error that names it and never a setting that
silently does nothing. Nothing here is secret: the platform references Secrets by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from api.quantity import Quantity
from components.errors import ComponentsError

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class ConfigurationError(ComponentsError):
    """The stack's configuration cannot be used; the message has one line for each key that is wrong."""


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_alias=True, validate_by_name=True
    )


def _from_json(value: Any) -> Any:
    """Return what a text stands for: the engine hands over objects and lists as JSON texts."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"expected an object or a list, got {value[:64]!r}") from error


_FROM_JSON = BeforeValidator(_from_json)


class RuntimeVersionPolicy(StrEnum):
    """What an unset `spec.runtimeVersion` means (spec section 5.13)."""

    PINNED = "Pinned"
    FOLLOW_OPERATOR = "FollowOperator"


class ManagerFlags(_Section):
    """The reconciler's own flags (spec section 11.1); what is not set keeps the reconciler's default."""

    leader_elect: bool = False
    allowed_registries: tuple[str, ...] = ()
    allow_insecure_registries: bool = False
    allow_image_override: bool = False
    allow_unpinned_runtime_images: bool = False
    ollaya_registry: str | None = None
    ollaya_hf_endpoint: str | None = None
    max_concurrent_reconciles: Annotated[int, Field(ge=1)] | None = None
    runtime_version_policy: RuntimeVersionPolicy | None = None
    watch_namespaces: tuple[str, ...] = ()
    metrics_bind_address: str | None = None
    stack_workers: Annotated[int, Field(ge=1, le=32)] = 2
    """Stack operations at once. Left to itself the reconciler takes one for each core of its node, however little
    memory it may use; a worker with its running operation needs up to 0.4 GiB."""

    @model_validator(mode="after")
    def _namespaces_are_names(self) -> Self:
        for namespace in self.watch_namespaces:
            if not _NAMESPACE.fullmatch(namespace):
                raise ValueError(f"watchNamespaces: {namespace!r} is no namespace's name")
        return self

    def arguments(self) -> list[str]:
        """Return the flags that are set as command-line arguments, in the order of the fields."""
        flags = ((f"--{name.replace('_', '-')}", getattr(self, name)) for name in type(self).model_fields)
        return [argument for flag, value in flags for argument in _arguments(flag, value)]


def _arguments(flag: str, value: Any) -> list[str]:
    match value:
        case True:
            return [flag]
        case None | False | ():
            return []
        case tuple():
            return [f"{flag}={','.join(value)}"]
    return [f"{flag}={value}"]


class Resources(_Section):
    """What the reconciler's container asks for and may use at most."""

    requests: Mapping[str, Quantity] = Field(default_factory=lambda: {"cpu": "200m", "memory": "512Mi"})
    limits: Mapping[str, Quantity] = Field(default_factory=lambda: {"memory": "2Gi"})


class StateVolume(_Section):
    """Where the engine keeps the models' stacks.

    A claim of this size; without a size a volume that lives as long as the Pod. Losing it costs no model: the
    reconciler takes its objects over again by name and owner.
    """

    size: Quantity | None = None
    storage_class_name: str | None = None


class PlatformConfiguration(_Section):
    """One environment."""

    image: Annotated[str, Field(min_length=1)]
    """The reconciler's image."""
    replicas: Annotated[int, Field(ge=1)] = 1
    resources: Annotated[Resources, _FROM_JSON] = Resources()
    manager: Annotated[ManagerFlags, _FROM_JSON] = ManagerFlags()
    environment: Annotated[Mapping[str, str], _FROM_JSON] = Field(default_factory=dict)
    """Further variables of the reconciler's container, for example OLLAYA_REGISTRY or HTTPS_PROXY. Not for secrets:
    they are kept in the stack's state as they stand."""
    state: Annotated[StateVolume, _FROM_JSON] = StateVolume()
    models: str | None = None
    """The directory under `stacks/` with the environment's models; the stack's name when unset."""

    @model_validator(mode="after")
    def _one_of_several_leads(self) -> Self:
        if self.replicas > 1 and not self.manager.leader_elect:
            raise ValueError("replicas: more than one needs manager.leaderElect, or they would all act at once")
        return self


def read_configuration(project: str, values: Mapping[str, Any]) -> PlatformConfiguration:
    """Return the configuration of a stack.

    Args:
        project: the project, whose name is the namespace of the keys that are read; other namespaces belong to others.
        values: every configuration value of the stack by its full key, `project:key`.

    Raises:
        ConfigurationError: a key is unknown or missing, or its value is not usable.
    """
    prefix = f"{project}:"
    own = {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
    try:
        return PlatformConfiguration.model_validate(own)
    except ValidationError as error:
        raise ConfigurationError("\n".join(_line(prefix, problem) for problem in error.errors())) from error


def _line(prefix: str, problem: Mapping[str, Any]) -> str:
    key = prefix + ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{key}: there is no such key"
    if problem["type"] == "missing":
        return f"{key}: is missing"
    return f"{key}: {problem['msg'].removeprefix('Value error, ')}"

"""The reconciler's own flags, as an environment sets them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from components.configuration.monitoring import BindAddress
from components.configuration.section import Namespaces, Section


class RuntimeVersionPolicy(StrEnum):
    """What an unset `spec.runtimeVersion` means (spec section 5.13)."""

    PINNED = "Pinned"
    FOLLOW_OPERATOR = "FollowOperator"


class LogLevel(StrEnum):
    """How much the reconciler logs."""

    DEBUG = "debug"
    INFO = "info"
    ERROR = "error"


class LogEncoder(StrEnum):
    """How a line of the log is written."""

    JSON = "json"
    CONSOLE = "console"


class ManagerFlags(Section):
    """The reconciler's flags (spec section 11.1); what is not set keeps the reconciler's default."""

    leader_elect: bool = True
    allowed_registries: tuple[str, ...] = ()
    allow_insecure_registries: bool = False
    allow_image_override: bool = False
    allow_unpinned_runtime_images: bool = False
    ollaya_registry: str | None = None
    ollaya_hf_endpoint: str | None = None
    max_concurrent_reconciles: Annotated[int, Field(ge=1, le=64)] | None = None
    max_concurrent_rollouts: Annotated[int, Field(ge=0)] | None = None
    runtime_version_policy: RuntimeVersionPolicy | None = None
    watch_namespaces: Namespaces = ()
    metrics_bind_address: BindAddress | None = None
    """Short for `metrics.bindAddress` with `metrics.secure` off, for a cluster that is shared with nobody."""
    stack_workers: Annotated[int, Field(ge=1, le=32)] = 2
    """Stack operations at once. Left to itself the reconciler takes one for each core of its node, however little
    memory it may use; a worker with its running operation needs up to 0.4 GiB."""
    stack_deadline: Annotated[float, Field(ge=10)] | None = None
    """Seconds that one stack operation may take."""
    zap_log_level: LogLevel | None = None
    zap_encoder: LogEncoder | None = None

    def arguments(self) -> list[str]:
        """Return the flags that are set as command-line arguments, in the order of the fields.

        Metrics are not among them: where they are served is the whole configuration's to say.
        """
        names = (name for name in type(self).model_fields if name != "metrics_bind_address")
        flags = ((f"--{name.replace('_', '-')}", getattr(self, name)) for name in names)
        return [argument for flag, value in flags for argument in _arguments(flag, value)]


def _arguments(flag: str, value: Any) -> list[str]:
    match value:
        case True:
            return [flag]
        case None | False | ():
            return []
        case tuple():
            return [f"{flag}={','.join(value)}"]
        case float():
            return [f"{flag}={value:g}"]
    return [f"{flag}={value}"]

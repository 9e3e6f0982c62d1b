"""What the operator of the platform allows and prefers, fixed when the reconciler starts (spec section 11.1)."""

from __future__ import annotations

from dataclasses import dataclass

from components.desired import EnvironmentVariable
from components.program import ProviderSettings
from policy import Configuration
from reconciler.engine.images import DEFAULT_VERSION, RuntimeVersion, RuntimeVersionPolicy
from reconciler.engine.registry_policy import RegistryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """Policies for all DecisionModels.

    `max_concurrent_rollouts` is 0 for any number, `proxy` holds the variables that prefetch Jobs inherit, and
    `stack_deadline` is the time one stack operation may take, in seconds.
    """

    registries: RegistryPolicy
    provider: ProviderSettings
    hf_endpoint: str | None = None
    max_concurrent_rollouts: int = 0
    allow_image_override: bool = False
    allow_unpinned_images: bool = False
    runtime_version_policy: RuntimeVersionPolicy = RuntimeVersionPolicy.PINNED
    default_version: RuntimeVersion = DEFAULT_VERSION
    policy: Configuration | None = None
    """The rules that a revision must keep before anything of it is applied; None for no rules."""
    proxy: tuple[EnvironmentVariable, ...] = ()
    stack_deadline: float = 120.0

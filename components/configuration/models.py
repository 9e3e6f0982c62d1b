"""What concerns an environment's models: their traffic, what outlives it, and whether an update waits for them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from components.configuration.section import Namespaces, Section


class NetworkPolicies(Section):
    """Who may ask the models, and where their Pods may go (spec section 4.9)."""

    enabled: bool = False
    namespaces: Namespaces = ()
    """Namespaces with models; those of `manager.watchNamespaces` when empty."""
    egress_ports: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = (443,)
    """Ports of registries and weight hosts."""
    manager: bool = True
    """Lets nobody reach the reconciler's own Pod but on the ports of its metrics and its health, whatever `enabled`."""


class Retain(Section):
    """What stays on the cluster when `pulumi destroy`, or an update that no longer declares it, would delete it."""

    definition: bool = True
    """The CRD; with it goes every DecisionModel of the cluster, whoever made it."""
    models: bool = True
    """The environment's DecisionModels, with all that serves them and their stores."""
    state: bool = True
    """The claim of the engine's state, and the namespace it is in."""


class WaitForModels(Section):
    """Whether an update ends only when every model is ready."""

    enabled: bool = True
    timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] = 900

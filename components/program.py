"""The program of one model's stack, as the driver runs it in its worker processes.

`functools.partial(converge, desired, settings)` is picklable, so it crosses into a spawned process; nothing but
declarations happens in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pulumi import ResourceOptions
from pulumi_kubernetes import Provider

from components.desired import DesiredStack, Owner
from components.manifests import render_stack
from components.revision import Model

_PROVIDER_NAME: Final = "kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """How the engine reaches the cluster.

    Attributes:
        kubeconfig: Path of a kubeconfig file; None for the Pod's own service account. Only the path enters the state.
        cluster_identifier: Names the cluster for good. Without it the API server's address does, and another address
            of the same cluster would replace every object.
    """

    kubeconfig: str | None = None
    cluster_identifier: str


def converge(desired: DesiredStack, provider: ProviderSettings) -> None:
    """Declare everything that the stack should contain.

    Raises:
        ComponentsError: The desired stack cannot be rendered; nothing is declared then.
    """
    rendered = render_stack(desired)
    Model(desired.owner.name, rendered, ResourceOptions(provider=_kubernetes(desired.owner, provider)))


def _kubernetes(owner: Owner, settings: ProviderSettings) -> Provider:
    # Creates are server-side applies with this version of the plugin, so what a killed operation left behind is taken
    # over. Later versions need `upsert_existing_objects` for that, an option that this SDK does not have yet.
    return Provider(
        _PROVIDER_NAME,
        namespace=owner.namespace,
        kubeconfig=settings.kubeconfig,
        cluster_identifier=settings.cluster_identifier,
        # A changed ConfigMap is otherwise deleted first.
        enable_config_map_mutable=True,
    )

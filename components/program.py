"""The program of one model's stack, as the driver runs it in its worker processes.

`functools.partial(converge, desired, settings)` is picklable, so it crosses into a spawned process; nothing but
declarations happens in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from components.desired import DesiredStack
from components.manifests import render_stack

CLUSTER_IDENTIFIER: Final = "decisionmodel"
"""Names the reconciler's cluster in every state; the same for all, for a state never moves to another."""


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
    # Whoever asks for the program imports this module; the engine's SDKs, slow and large, come where it runs.
    from components.declaration import declare  # noqa: PLC0415

    declare(
        render_stack(desired),
        desired.owner,
        kubeconfig=provider.kubeconfig,
        cluster_identifier=provider.cluster_identifier,
    )

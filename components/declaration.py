"""Declares one model's rendered stack to the engine. Imports the engine's SDKs, so only worker processes import it."""

from __future__ import annotations

from pulumi import ResourceOptions
from pulumi_kubernetes import Provider

from components.desired import Owner
from components.manifests import StackManifests
from components.revision import Model
from components.state_tokens import PROVIDER_NAME


def declare(stack: StackManifests, owner: Owner, *, kubeconfig: str | None, cluster_identifier: str) -> None:
    """Declare a stack; how the engine reaches the cluster is explained at `components.program.ProviderSettings`."""
    provider = Provider(
        PROVIDER_NAME,
        namespace=owner.namespace,
        kubeconfig=kubeconfig,
        cluster_identifier=cluster_identifier,
        # A changed ConfigMap is otherwise deleted first. Creates are server-side applies with this version of the
        # plugin, so what a killed operation left behind is taken over. Later versions need `upsert_existing_objects`
        # for that, an option that this SDK does not have yet.
        enable_config_map_mutable=True,
    )
    Model(owner.name, stack, ResourceOptions(provider=provider))

"""How traffic reaches a model and how many of its Pods a drain may take (spec section 4.9)."""

from __future__ import annotations

from api.keys import RUNTIME_PORT
from components import names
from components.desired import DesiredRevision, Owner
from components.manifests.manifest import Manifest, ObjectKey, stack_metadata


def pod_disruption_budget(owner: Owner, revision: DesiredRevision, after: ObjectKey) -> Manifest:
    """Return the budget over the revision's serving Pods, to be applied after their Deployment."""
    name = names.disruption_budget(owner.name, revision.hash)
    labels = names.revision_labels(owner.name, revision.hash)
    return Manifest(
        kind="PodDisruptionBudget",
        name=name,
        object={
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": stack_metadata(owner, name, labels),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        },
        depends_on=(after,),
    )


def service(owner: Owner, revision: str, depends_on: tuple[ObjectKey, ...]) -> Manifest:
    """Return the Service that sends the model's traffic to `revision`.

    A failed operation still applies what does not depend on the failure, so the switch of the selector comes after
    everything that it selects.
    """
    name = names.service(owner.name)
    return Manifest(
        kind="Service",
        name=name,
        object={
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": stack_metadata(owner, name, names.model_labels(owner.name)),
            "spec": {
                "type": "ClusterIP",
                "selector": names.revision_labels(owner.name, revision),
                "ports": [{"name": "http", "port": RUNTIME_PORT, "targetPort": RUNTIME_PORT, "protocol": "TCP"}],
            },
        },
        depends_on=depends_on,
    )

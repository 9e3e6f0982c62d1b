"""Whether what a promotion rests on is still there.

A watch cache lags, and for as long as its watch is lost it shows the past. A promotion moves traffic, so its one
premise is read from the API server itself right before it is persisted.
"""

from __future__ import annotations

import asyncio

from api.decisionmodel import DecisionModel
from components import names
from reconciler.controller.observation import Children, revision_facts
from reconciler.controller.watched import DEPLOYMENTS, PODS, REPLICA_SETS
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.resources import KubernetesObject, Resource


async def is_still_proved(client: KubernetesClient, model: DecisionModel, revision: str) -> bool:
    """Whether all Pods of a revision are model-ready as the API server knows them at this moment.

    Raises:
        KubernetesError: The API server did not answer.
    """
    metadata = model.metadata
    selector = ",".join(f"{key}={value}" for key, value in names.revision_labels(metadata.name, revision).items())

    async def live(resource: Resource) -> tuple[KubernetesObject, ...]:
        return tuple(await client.list(resource, metadata.namespace, label_selector=selector))

    deployments, replica_sets, pods = await asyncio.gather(live(DEPLOYMENTS), live(REPLICA_SETS), live(PODS))
    children = Children(deployments=deployments, replica_sets=replica_sets, pods=pods)
    serving = revision_facts(children, metadata.name, metadata.uid, revision).serving
    return serving.model_ready >= model.spec.replicas

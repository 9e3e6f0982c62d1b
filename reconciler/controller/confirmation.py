"""Whether what moves traffic is still there.

A watch cache lags, and for as long as its watch is lost it shows the past. So the one premise of a promotion, or of
traffic that goes to and fro after it, is read from the API server itself right before the decision is persisted.
"""

from __future__ import annotations

import asyncio

from api.decisionmodel import DecisionModel
from components import names
from reconciler.controller.observation import Children, revision_facts
from reconciler.controller.watched import DEPLOYMENTS, PODS, REPLICA_SETS
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.resources import KubernetesObject, Resource
from reconciler.rollout import ReadyPods


async def are_there(client: KubernetesClient, model: DecisionModel, pods: ReadyPods) -> bool:
    """Whether so many Pods of a revision are model-ready as the API server knows them at this moment.

    Raises:
        KubernetesError: The API server did not answer.
    """
    metadata, revision = model.metadata, pods.revision
    selector = ",".join(f"{key}={value}" for key, value in names.revision_labels(metadata.name, revision).items())

    async def live(resource: Resource) -> tuple[KubernetesObject, ...]:
        return tuple(await client.list(resource, metadata.namespace, label_selector=selector))

    deployments, replica_sets, found = await asyncio.gather(live(DEPLOYMENTS), live(REPLICA_SETS), live(PODS))
    children = Children(deployments=deployments, replica_sets=replica_sets, pods=found)
    serving = revision_facts(children, metadata.name, metadata.uid, revision).serving
    return serving.model_ready >= pods.count

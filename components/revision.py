"""The Pulumi components over rendered manifests: one per revision, and the model that groups them.

Names of resources are the objects' own, and type tokens never change: both are part of every URN in a state file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pulumi import ComponentResource, Resource, ResourceOptions
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import PersistentVolumeClaim, Service
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget

from components.manifests import Manifest, ObjectKey, RevisionManifests, StackManifests
from components.state_tokens import MODEL_TYPE, REVISION_TYPE

_RESOURCE_TYPES: Final[Mapping[str, Callable[..., Resource]]] = {
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "Job": Job,
    "Deployment": Deployment,
    "PodDisruptionBudget": PodDisruptionBudget,
    "Service": Service,
}

_IGNORED_CHANGES: Final[Mapping[str, list[str]]] = {
    # A change of either would replace the claim, and with it delete the files of a serving model.
    "PersistentVolumeClaim": ["spec.accessModes", "spec.storageClassName"],
    # A Job cannot be changed, only deleted and run again: a new version of the reconciler would prefetch everything
    # anew. What it does is decided when it is created.
    "Job": ["spec"],
}


class Revision(ComponentResource):
    """One revision's objects.

    Attributes:
        objects: The declared resources, by what identifies the object.
    """

    def __init__(self, name: str, revision: RevisionManifests, opts: ResourceOptions | None = None) -> None:
        super().__init__(REVISION_TYPE, name, None, opts)
        self.objects: dict[ObjectKey, Resource] = {}
        for manifest in revision.manifests:
            self.objects[manifest.key] = _declare(manifest, self, self.objects)
        self.register_outputs({})


class Model(ComponentResource):
    """One DecisionModel's stack: its revisions, and the Service over the selected one."""

    def __init__(self, name: str, stack: StackManifests, opts: ResourceOptions | None = None) -> None:
        super().__init__(MODEL_TYPE, name, None, opts)
        objects: dict[ObjectKey, Resource] = {}
        for revision in stack.revisions:
            objects |= Revision(f"{name}-{revision.hash}", revision, ResourceOptions(parent=self)).objects
        if stack.service is not None:
            _declare(stack.service, self, objects)
        self.register_outputs({})


def _declare(manifest: Manifest, parent: Resource, declared: Mapping[ObjectKey, Resource]) -> Resource:
    fields = manifest.object
    return _RESOURCE_TYPES[manifest.kind](
        manifest.name,
        api_version=fields["apiVersion"],
        kind=fields["kind"],
        metadata=fields["metadata"],
        spec=fields["spec"],
        opts=ResourceOptions(
            parent=parent,
            depends_on=_resources(manifest.depends_on, declared),
            ignore_changes=_IGNORED_CHANGES.get(manifest.kind),
        ),
    )


def _resources(keys: Iterable[ObjectKey], declared: Mapping[ObjectKey, Resource]) -> list[Resource]:
    return [declared[key] for key in keys]

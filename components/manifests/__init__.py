"""A desired stack as Kubernetes objects: pure, ordered, and byte-equal for equal values (spec section 4)."""

from components.manifests.co_location import co_location_for, drawn_to, unschedulable
from components.manifests.config_map import MANIFEST_SIZE_LIMIT, evidence_config_map, manifest_config_map
from components.manifests.deployment import SERVING_CONTAINER
from components.manifests.manifest import MANAGED_KINDS, Manifest, ObjectKey
from components.manifests.stack import RevisionManifests, StackManifests, render, render_stack

__all__ = [
    "MANAGED_KINDS",
    "MANIFEST_SIZE_LIMIT",
    "SERVING_CONTAINER",
    "Manifest",
    "ObjectKey",
    "RevisionManifests",
    "StackManifests",
    "co_location_for",
    "drawn_to",
    "evidence_config_map",
    "manifest_config_map",
    "render",
    "render_stack",
    "unschedulable",
]

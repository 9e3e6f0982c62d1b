"""The Deployment that serves a revision (spec section 4.5)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any, Final

from api.keys import (
    API_KEY_CHECKSUM_ANNOTATION,
    GATE,
    POD_SETTINGS_ANNOTATION,
    REVISION_RECORD_ANNOTATION,
    RUNTIME_PORT,
    SPEC_HASH_ANNOTATION,
)
from components import names, paths
from components.desired import DesiredRevision, JsonObject, Owner, Serving, Store
from components.manifests import pod
from components.manifests.co_location import with_co_location
from components.manifests.manifest import Manifest, ObjectKey, stack_metadata

SERVING_CONTAINER: Final = "ollaya"

_SPEC_HASH_LENGTH = 16


def serving_deployment(
    owner: Owner, revision: DesiredRevision, serving: Serving, depends_on: tuple[ObjectKey, ...]
) -> Manifest:
    """Return the Deployment, to be applied after the store and the Job that fills it."""
    name = names.deployment(owner.name, revision.hash)
    labels = names.revision_labels(owner.name, revision.hash)
    spec = {
        "replicas": serving.replicas,
        "selector": {"matchLabels": labels},
        "strategy": update_strategy(revision.store, serving.device),
        "template": serving.template or _template(owner, revision, serving, labels),
    }
    annotations = {
        SPEC_HASH_ANNOTATION: spec_hash(spec),
        API_KEY_CHECKSUM_ANNOTATION: serving.api_key_checksum,
        POD_SETTINGS_ANNOTATION: revision.pods.record,
        REVISION_RECORD_ANNOTATION: serving.record,
    }
    return Manifest(
        kind="Deployment",
        name=name,
        object={
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": stack_metadata(owner, name, {**revision.pods.labels, **labels}, annotations),
            "spec": spec,
        },
        depends_on=depends_on,
    )


def update_strategy(store: Store, device: str) -> dict[str, Any]:
    """Return how Pods are replaced in place.

    A store that cannot be mounted twice leaves no room for a second Pod, and GPUs are too scarce for a surge.
    """
    if not store.shareable:
        return {"type": "Recreate"}
    if device == "cuda":
        return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}


def spec_hash(spec: JsonObject) -> str:
    """Return 16 hexadecimal digits over what a Deployment runs: replicas, Pod spec, strategy, template annotations."""
    template = spec["template"]
    covered = {
        "replicas": spec["replicas"],
        "podSpec": template["spec"],
        "strategy": spec["strategy"],
        "annotations": template["metadata"].get("annotations", {}),
    }
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()[:_SPEC_HASH_LENGTH]


def _template(owner: Owner, revision: DesiredRevision, serving: Serving, labels: dict[str, str]) -> dict[str, Any]:
    checksum = serving.template_api_key_checksum
    annotations = {} if checksum is None else {API_KEY_CHECKSUM_ANNOTATION: checksum}
    metadata = pod.template_metadata(revision.pods, labels, annotations)
    return {"metadata": metadata, "spec": _pod_spec(owner, revision, serving, labels)}


def _pod_spec(owner: Owner, revision: DesiredRevision, serving: Serving, labels: dict[str, str]) -> dict[str, Any]:
    affinity = with_co_location(serving.placement.affinity, labels, revision.store, serving.co_location)
    return {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": pod.pod_security_context(owner, revision.pods),
        **pod.pull_secrets(revision.pods),
        # The reconciler opens the gate once the runtime itself has named the model's digest and device.
        "readinessGates": [{"conditionType": GATE}],
        **pod.placement_fields(replace(serving.placement, affinity=affinity)),
        "containers": [_container(revision.hash, serving)],
        "volumes": [
            pod.store_volume(names.store(owner.name, revision.hash, shared=revision.store.shared)),
            pod.state_volume(),
        ],
    }


def _container(revision: str, serving: Serving) -> dict[str, Any]:
    answers = {"httpGet": {"path": "/", "port": "http"}}  # needs no API key
    return {
        "name": SERVING_CONTAINER,
        "image": serving.image,
        "ports": [{"name": "http", "containerPort": RUNTIME_PORT, "protocol": "TCP"}],
        "env": pod.environment(serving.environment),
        **_resources(serving.resources),
        "securityContext": pod.container_security_context(),
        "startupProbe": {**answers, "periodSeconds": 2, "failureThreshold": 30},
        "livenessProbe": {**answers, "periodSeconds": 10},
        "volumeMounts": [
            {"name": pod.STORE_VOLUME, "mountPath": paths.MODEL_STORE, "subPath": revision, "readOnly": True},
            {"name": pod.STATE_VOLUME, "mountPath": paths.RUNTIME_STATE},
        ],
    }


def _resources(resources: JsonObject) -> dict[str, Any]:
    declared = {key: value for key, value in resources.items() if value}
    return {"resources": declared} if declared else {}

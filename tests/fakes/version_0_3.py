"""What version 0.3 of the decision-model-operator leaves in a cluster for a model that it serves (spec section 3.1).

Its revisions have ten digits and an image without a digest, they share one store, and nothing of it belongs to a stack.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from api.decisionmodel import DecisionModel
from api.keys import API_KEY_CHECKSUM_ANNOTATION
from api.status import RevisionStatus
from components.identity import legacy_hash
from components.manifests import render
from reconciler.controller.observation import Children
from reconciler.controller.rendering import Surroundings, desired_stack
from reconciler.controller.revisions import identity
from reconciler.controller.settings import ControllerSettings
from reconciler.rollout import RevisionPlan, StackPlan

Object = dict[str, Any]

IMAGE = "ghcr.io/ollaya-dev/ollaya:0.10.0"
"""What that version ran by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """One served model: its objects by kind, and its status."""

    revision: str
    objects: dict[str, Object]
    status: Object


def left_behind(
    model: DecisionModel, digest: str, settings: ControllerSettings, *, api_key_checksum: str | None = None
) -> LeftBehind:
    """Return what that version made of `model`, whose tag it had resolved to `digest`."""
    record = RevisionStatus(
        hash="",
        engine=model.spec.engine,
        model=model.spec.model,
        digest=digest,
        device=model.spec.device,
        image=IMAGE,
        resources=model.spec.resources,
    )
    record = record.model_copy(update={"hash": legacy_hash(identity(record))})
    objects = _objects(model, record, settings)
    if api_key_checksum is not None:
        objects["Deployment"]["metadata"]["annotations"][API_KEY_CHECKSUM_ANNOTATION] = api_key_checksum
    # It recorded no resources and no placement.
    stable = record.model_copy(update={"resources": RevisionStatus(hash="").resources}).dump()
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
    status = {
        "phase": "Ready",
        "observedGeneration": model.metadata.generation,
        "stableRevision": stable,
        "conditions": [{**ready, "lastTransitionTime": "2026-10-06T12:00:00Z"}],
    }
    return LeftBehind(revision=record.hash, objects=objects, status=status)


def _objects(model: DecisionModel, record: RevisionStatus, settings: ControllerSettings) -> dict[str, Object]:
    plan = StackPlan(revisions=(RevisionPlan(revision=record, serve=True),), selected=record.hash)
    desired = desired_stack(model, plan, Surroundings(settings=settings, children=Children()))
    (revision,) = desired.revisions
    sharing = replace(revision, store=replace(revision.store, shared=True))
    manifests = render(replace(desired, revisions=(sharing,)))
    return {manifest.kind: _as_rendered_then(manifest.object) for manifest in manifests}


def _as_rendered_then(rendered: Any) -> Object:
    """Without the engine's annotations, and with what differed then: some of it known, some that nobody remembers."""
    obj: Object = deepcopy(dict(rendered))
    annotations = obj["metadata"].pop("annotations")
    obj["metadata"]["annotations"] = {key: annotations[key] for key in annotations if not key.startswith("pulumi.com/")}
    if obj["kind"] == "Deployment":
        pod = obj["spec"]["template"]["spec"]
        pod.pop("affinity")
        (container,) = pod["containers"]
        container.pop("startupProbe")
        container["livenessProbe"]["periodSeconds"] = 30
        container["env"].append({"name": "OLLAYA_FORGOTTEN", "value": "1"})
    return obj

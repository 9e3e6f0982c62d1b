"""Rebuilds the record of a revision from its live objects: pure functions.

A revision's hash covers its whole identity, so whatever is tried, only the right record is accepted. Deployments carry
their record as an annotation; those of earlier versions do not, and there each field is looked for where it was
rendered to, in every spelling that the spec may have had.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from api.decisionmodel import DecisionModel
from api.keys import REVISION_RECORD_ANNOTATION
from api.status import RevisionStatus
from components import names
from components.desired import JsonObject
from components.freeze import REGISTRY_VARIABLE, live_placement
from components.identity import NO_PLACEMENT, is_named, placement_hash
from components.manifests import SERVING_CONTAINER
from components.manifests.pod import unescaped
from reconciler.controller.observation import Children, named
from reconciler.controller.revisions import identity
from reconciler.engine.errors import InvalidModelName
from reconciler.engine.images import runtime_image, version_of_image
from reconciler.engine.names import DEFAULT_TAG, ModelName
from reconciler.engine.registry_policy import DEFAULT_REGISTRY_URL
from reconciler.engine.resources import declared_resources, default_requests
from reconciler.engine.workload import declared_placements
from reconciler.rollout import Resolved, Unrecorded
from reconciler.rollout.facts import Resolution
from reconciler.rollout.retention import known_revisions

_MOST_GUESSES: Final = 20_000
"""Far more than the spellings of one revision; each costs some microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """Where a revision's record may have left its fields."""

    revision: str
    deployment: JsonObject
    job: JsonObject | None = None
    kept_digest: str | None = None
    """SHA-256 of the manifest in the revision's ConfigMap."""
    resolution: Resolution = None


def annotation_of(revision: RevisionStatus) -> str:
    """Return the record as a Deployment carries it, without what is found out while it runs."""
    settled = revision.model_copy(update={"precision": "", "verified_store": ""})
    return json.dumps(settled.dump(), separators=(",", ":"), sort_keys=True)


def is_unrecorded(model: DecisionModel, children: Children, selected: str | None) -> bool:
    """Whether the Service selects a revision that has a Deployment of ours and no record in the status."""
    if selected is None or not names.is_revision(selected):
        return False
    if any(each.hash == selected for each in known_revisions(model.status)):
        return False
    return _deployment(model, children, selected) is not None


def unrecorded(
    model: DecisionModel,
    children: Children,
    selected: str | None,
    kept_digest: str | None,
    resolution: Resolution,
) -> Unrecorded | None:
    """Return what the Service selects and the status does not name, with its record if that can be proved.

    Args:
        model: The DecisionModel.
        children: Its objects.
        selected: The revision that its Service selects.
        kept_digest: SHA-256 of the manifest in that revision's ConfigMap, if there is one.
        resolution: What the spec resolves to, as far as it is known.
    """
    if selected is None or not is_unrecorded(model, children, selected):
        return None
    deployment = _deployment(model, children, selected)
    if deployment is None:
        return None
    job = named(children.jobs, names.prefetch_job(model.metadata.name, selected), model.metadata.uid)
    traces = Traces(revision=selected, deployment=deployment, job=job, kept_digest=kept_digest, resolution=resolution)
    return Unrecorded(record=rebuilt(model, traces))


def rebuilt(model: DecisionModel, traces: Traces) -> RevisionStatus | None:
    """Return the record whose hash is the revision's name; None if none of those that can be thought of has it."""
    candidates = itertools.chain(_annotated(traces), _resolved(traces), _guessed(model, traces))
    bounded = itertools.islice(candidates, _MOST_GUESSES)
    return next((each for each in bounded if is_named(traces.revision, identity(each))), None)


def _deployment(model: DecisionModel, children: Children, revision: str) -> JsonObject | None:
    metadata = model.metadata
    return named(children.deployments, names.deployment(metadata.name, revision), metadata.uid)


def _annotated(traces: Traces) -> Iterator[RevisionStatus]:
    text = (traces.deployment["metadata"].get("annotations") or {}).get(REVISION_RECORD_ANNOTATION)
    if text is None:
        return
    try:
        record = RevisionStatus.model_validate_json(text)
    except ValidationError:  # somebody's own text proves nothing
        return
    yield record.model_copy(update={"hash": traces.revision})


def _resolved(traces: Traces) -> Iterator[RevisionStatus]:
    if isinstance(traces.resolution, Resolved):
        yield traces.resolution.revision.model_copy(update={"hash": traces.revision})


def _guessed(model: DecisionModel, traces: Traces) -> Iterator[RevisionStatus]:
    """Yield every record that the live objects may have been rendered from."""
    spec = model.spec
    container = _container(traces.deployment, SERVING_CONTAINER)
    if container is None:
        return
    variables = _plain_variables(container)
    device, image = variables.get("OLLAYA_DEVICE", spec.device), str(container.get("image", ""))
    registry = unescaped(variables.get(REGISTRY_VARIABLE, DEFAULT_REGISTRY_URL))
    settled = _with_runtime(RevisionStatus(hash=traces.revision, device=device, registry=registry), image, spec.image)
    placements = tuple(_placements(model, traces.deployment, device))
    for name, digest in itertools.product(_models(model, traces), _digests(model, traces)):
        defaults = default_requests(name, device, registry)
        resources = (spec.resources.dump(), *declared_resources(container.get("resources") or {}, defaults, device))
        for resource, placement in itertools.product(_distinct(resources), placements):
            fields = {**settled.dump(), "engine": spec.engine, "model": name, "digest": digest}
            yield RevisionStatus.model_validate({**fields, "resources": resource, "placement": placement})


def _with_runtime(record: RevisionStatus, image: str, custom: str | None) -> RevisionStatus:
    version = None if image == custom else version_of_image(image)
    if version is None:
        return record.model_copy(update={"image": image})
    pinned = None if runtime_image(version, record.device).pinned else False
    return record.model_copy(update={"image": image, "runtime_version": str(version), "image_pinned": pinned})


def _models(model: DecisionModel, traces: Traces) -> Iterable[str]:
    """Return the spellings of the model: the spec's, and those that are rendered to what the Job was given."""
    yield model.spec.model
    rendered = _job_variables(traces).get("MODEL", "")
    try:
        name = ModelName.parse(rendered)
    except InvalidModelName:
        return
    yield name.reference
    if name.tag == DEFAULT_TAG:
        yield name.reference.removesuffix(f":{DEFAULT_TAG}")


def _digests(model: DecisionModel, traces: Traces) -> tuple[str, ...]:
    resolution = traces.resolution
    answered = resolution.revision.digest if isinstance(resolution, Resolved) else None
    known = (_job_variables(traces).get("EXPECT_DIGEST"), traces.kept_digest, model.spec.digest, answered)
    return tuple(dict.fromkeys(each for each in known if each))


def _placements(model: DecisionModel, deployment: JsonObject, device: str) -> Iterator[str]:
    spec = deployment["spec"]
    live = live_placement(spec["template"]["spec"], spec["selector"].get("matchLabels") or {})
    of_objects = (
        {
            "nodeSelector": dict(each.node_selector),
            "tolerations": list(each.tolerations),
            "affinity": each.affinity,
            "runtimeClassName": each.runtime_class_name,
        }
        for each in (live, *declared_placements(live, device))
    )
    for scheduling in (model.spec.scheduling.dump(), *of_objects):
        yield placement_hash(scheduling) or NO_PLACEMENT


def _distinct(values: Iterable[JsonObject]) -> Iterator[JsonObject]:
    seen: set[str] = set()
    for value in values:
        text = json.dumps(value, sort_keys=True)
        if text not in seen:
            seen.add(text)
            yield value


def _job_variables(traces: Traces) -> Mapping[str, str]:
    container = None if traces.job is None else _container(traces.job, "prefetch")
    return {} if container is None else _plain_variables(container)


def _container(workload: JsonObject, name: str) -> JsonObject | None:
    containers = workload["spec"]["template"]["spec"].get("containers") or ()
    return next((each for each in containers if each["name"] == name), None)


def _plain_variables(container: JsonObject) -> dict[str, str]:
    return {each["name"]: str(each["value"]) for each in container.get("env") or () if each.get("value") is not None}

"""What the Pods of a revision get besides: from the spec while it is the spec's, else from what was recorded."""

from __future__ import annotations

import json

from pydantic import ValidationError

from api.keys import POD_SETTINGS_ANNOTATION
from api.pods import PodIdentity, PodSettings
from api.spec import DecisionModelSpec
from api.status import RevisionStatus
from components.desired import JsonObject, PodExtras
from components.identity import pods_hash


def pod_extras(spec: DecisionModelSpec, revision: RevisionStatus, deployment: JsonObject | None) -> PodExtras:
    """Return what the revision's Pods get besides; for one that the spec does not ask for any more, as it is recorded.

    A record that is not the revision's says nothing: then the Pod template is left as it is (see `is_lost`).
    """
    if not revision.pods:
        return PodExtras()
    if revision.pods == pods_hash(spec.pods.dump()):
        return _extras(spec.pods)
    recorded = _recorded_pods(revision, deployment)
    return PodExtras() if recorded is None else _extras(recorded)


def is_lost(spec: DecisionModelSpec, revision: RevisionStatus, deployment: JsonObject) -> bool:
    """Whether nobody knows any more what the revision's Pods were given besides."""
    known = ("", pods_hash(spec.pods.dump()))
    return revision.pods not in known and _recorded_pods(revision, deployment) is None


def _recorded_pods(revision: RevisionStatus, deployment: JsonObject | None) -> PodSettings | None:
    annotations = {} if deployment is None else deployment["metadata"].get("annotations") or {}
    try:
        recorded = PodSettings.model_validate_json(annotations.get(POD_SETTINGS_ANNOTATION, ""))
    except ValidationError:
        return None
    return recorded if pods_hash(recorded.dump()) == revision.pods else None


def _extras(pods: PodSettings) -> PodExtras:
    return PodExtras(
        labels=pods.labels,
        annotations=pods.annotations,
        image_pull_secrets=tuple(secret.name for secret in pods.image_pull_secrets),
        cluster_identity=pods.identity is PodIdentity.CLUSTER,
        record=json.dumps(pods.dump(), separators=(",", ":"), ensure_ascii=False),
    )

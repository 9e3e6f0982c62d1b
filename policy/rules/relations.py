"""What objects must have beside them: a budget over what serves, and the label that opens a Secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from api.keys import API_KEY_LABEL, CAPABILITY_GRANTED, DATASET_LABEL, DOWNLOAD_TOKEN_LABEL
from components.desired import is_shareable
from policy.navigation import JsonObject, Path, at, mapping, text
from policy.objects import DECISION_MODEL, kind_of, labels_of, namespace_of, pods, volumes
from policy.rule import Level, Problem, Rule, Settings, Subject
from policy.rules.placement import access_modes
from reconciler.engine.api_key import is_open_to

_REFERENCES: Final[Mapping[Path, str]] = {
    ("spec", "auth", "apiKeySecretRef"): API_KEY_LABEL,
    ("spec", "cache", "downloadTokenSecretRef"): DOWNLOAD_TOKEN_LABEL,
    ("spec", "rollout", "evaluation", "datasetRef", "secretRef"): DATASET_LABEL,
}


def _budgeted(subject: Subject, _: Settings) -> Iterator[Problem]:
    replicas = at(subject.object, "spec", "replicas")
    if not isinstance(replicas, int) or replicas <= 1 or not [*pods(subject.object)]:
        return
    labels = labels_of(at(subject.object, "spec", "template", "metadata"))
    beside = [peer for peer in subject.peers if namespace_of(peer) == namespace_of(subject.object)]
    # A candidate takes no traffic yet, so a drain may take all of it.
    if not any(_selects(at(peer, "spec", "selector"), labels) for peer in _of_kind(beside, "Service")):
        return
    # One that lets a drain take a single Pod of those on a node lets it take none: its successor finds no store.
    if _share_node(subject.object, beside):
        return
    budgets = _of_kind(beside, "PodDisruptionBudget")
    if not any(_selects(at(budget, "spec", "selector", "matchLabels"), labels) for budget in budgets):
        yield Problem(("spec", "replicas"), f"{replicas} Pods serve, and no PodDisruptionBudget covers them")


def _share_node(deployment: JsonObject, beside: list[JsonObject]) -> bool:
    """Whether only one node can mount a claim of the Pods, as far as the claims are known."""
    mounted = {
        text(at(fields.get("persistentVolumeClaim"), "claimName"))
        for pod in pods(deployment)
        for _, fields in volumes(pod)
    }
    claims = [
        claim for claim in _of_kind(beside, "PersistentVolumeClaim") if text(at(claim, "metadata", "name")) in mounted
    ]
    return any(not is_shareable(access_modes(at(claim, "spec"))) for claim in claims)


def _of_kind(manifests: list[JsonObject], kind: str) -> Iterator[JsonObject]:
    return (manifest for manifest in manifests if kind_of(manifest) == kind)


def _selects(selector: Any, labels: JsonObject) -> bool:
    wanted = mapping(selector)
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def _secrets_labelled(subject: Subject, _: Settings) -> Iterator[Problem]:
    model = text(at(subject.object, "metadata", "name"))
    for path, label in _REFERENCES.items():
        name = text(at(subject.object, *map(str, path), "name"))
        for secret in _of_kind([*subject.peers], "Secret"):
            same = at(secret, "metadata", "name") == name and namespace_of(secret) == namespace_of(subject.object)
            if same and not is_open_to(text(at(secret, "metadata", "labels", label)), model):
                yield Problem(path, f'the Secret {name!r} lacks the label {label}: "{CAPABILITY_GRANTED}" or "{model}"')


RULES: Final = (
    Rule(
        id="disruption-budget-present",
        why="Without a budget a drain may take every Pod of a serving model at once.",
        remedy="Keep the PodDisruptionBudget over the labels of the Deployment that the Service selects.",
        level=Level.MANDATORY,
        kinds=frozenset({"Deployment"}),
        examine=_budgeted,
        relational=True,
    ),
    Rule(
        id="secret-capability-label",
        why="The reconciler reads only Secrets that were opened to it, so the model would never become ready.",
        remedy="Set the named label on the Secret, if this use of it is meant.",
        level=Level.MANDATORY,
        kinds=DECISION_MODEL,
        examine=_secrets_labelled,
        relational=True,
    ),
)

"""A DecisionModel and what is rendered for it, and ways to change one place in a manifest."""

from __future__ import annotations

import copy
from typing import Any, Final

from components.desired import DesiredRevision, DesiredStack, Owner, SecretKey, Store
from components.manifests import render
from policy import Finding, check, read_configuration
from reconciler.engine.images import DEFAULT_VERSION, runtime_image
from reconciler.engine.workload import RevisionRecipe, prefetch, serving

REVISION: Final = "0123456789abcdef"
DIGEST: Final = "ab" * 32
REMOVED: Final = object()


def model(**spec: Any) -> dict[str, Any]:
    """Return a DecisionModel that breaks no rule, with these fields of its spec changed."""
    return {
        "apiVersion": "decisionmodel.io/v1alpha1",
        "kind": "DecisionModel",
        "metadata": {"name": "laya", "namespace": "team-a"},
        "spec": {"model": "laya:en", **spec},
    }


def objects(
    device: str = "cpu", replicas: int = 2, modes: tuple[str, ...] = ("ReadWriteMany",), **recipe: Any
) -> list[Any]:
    """Return the objects that are rendered for a promoted revision."""
    made = RevisionRecipe(
        **{
            "hash": REVISION,
            "model": "laya:en",
            "digest": DIGEST,
            "device": device,
            "image": runtime_image(DEFAULT_VERSION, device).reference,
            "runtime_version": DEFAULT_VERSION,
            "api_key": SecretKey(name="keys", key="serving"),
            **recipe,
        }
    )
    revision = DesiredRevision(
        hash=REVISION,
        store=Store(size="10Gi", access_modes=modes),
        prefetch=prefetch(made, seeded=True),
        serving=serving(made, replicas=replicas),
        disruption_budget=replicas > 1,
    )
    owner = Owner(namespace="team-a", name="laya", uid="6f1c2a34-0000-4000-8000-0123456789ab")
    rendered = render(DesiredStack(owner=owner, revisions=(revision,), selected=REVISION))
    return [copy.deepcopy(manifest.object) for manifest in rendered]


def one(kind: str, **recipe: Any) -> Any:
    """Return the only rendered object of a kind."""
    (found,) = [each for each in objects(**recipe) if each["kind"] == kind]
    return found


def changed(manifest: Any, path: str, value: Any) -> Any:
    """Return the manifest with another value at `spec.template.0.name`; REMOVED takes it out."""
    result = copy.deepcopy(manifest)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    inner = result
    for part in parents:
        inner = inner.setdefault(part, {}) if isinstance(inner, dict) else inner[part]
    if value is REMOVED:
        del inner[last]
    else:
        inner[last] = value
    return result


def found(rule: str, *manifests: Any, environment: str | None = None, **settings: Any) -> list[Finding]:
    """Return what one rule finds, with these settings of it."""
    configuration = read_configuration({"rules": {rule: settings}}, environment)
    return [finding for finding in check(manifests, configuration) if finding.rule == rule]

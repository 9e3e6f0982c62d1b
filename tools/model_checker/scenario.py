"""The revisions and specs that a check is about, and the DecisionModels made of them."""

from __future__ import annotations

import functools
from enum import StrEnum
from typing import NamedTuple

from api.decisionmodel import DecisionModel
from api.keys import PROMOTE_ANNOTATION, RETRY_ANNOTATION
from api.status import DecisionModelStatus, RevisionStatus
from reconciler.controller.revisions import known_digest
from reconciler.rollout import ResolutionFailed, Resolved, TagMissing, retry
from reconciler.rollout.facts import Resolution
from tools.model_checker.cluster import MANY_REPLICAS, REPLICAS

MODELS = ("laya:a", "laya:b", "laya:c")
NAMES = ("A", "B", "C", "B'")
"""B' is what the tag of B stands for once it has moved."""


def _revision(name: str, model: str, digit: str) -> RevisionStatus:
    return RevisionStatus(
        hash=digit * 16,
        engine="ollaya",
        model=model,
        digest=digit * 64,
        device="cpu",
        image=f"registry.example/ollaya@sha256:{digit * 64}" if name == "C" else "registry.example/ollaya:0.12.0",
        runtime_version="0.12.0",
        placement="none",
    )


REVISIONS = tuple(
    _revision(name, model, digit) for name, model, digit in zip(NAMES, (*MODELS, MODELS[1]), "abcd", strict=True)
)
INDEX = {revision.hash: index for index, revision in enumerate(REVISIONS)}
MOVED = {1: 3}
"""Which revision the tag of a model stands for once it has moved, where another one is in the scenario."""


class Registry(StrEnum):
    """What the registry answers."""

    AS_EVER = "answers as ever"
    MOVED = "answers with another digest"
    MISSING = "knows the tag no more"
    FAILING = "fails"


class Spec(NamedTuple):
    """The declared part of a DecisionModel, annotations included.

    Attributes:
        model: An index of `MODELS`.
        manual: Whether a person approves promotions.
        window: Whether a promoted revision is watched.
        evaluated: Whether candidates are scored.
        recreate: Whether the strategy is Recreate; None where the strategy is BlueGreen for good.
        retry: The retry token.
        approval: What the promote annotation says.
        scaled: Whether it was scaled up.
    """

    model: int = 0
    manual: bool = False
    window: bool = True
    evaluated: bool = False
    recreate: bool | None = None
    retry: int = 0
    approval: str = ""
    scaled: bool = False


def answer(spec: Spec, registry: Registry, status: DecisionModelStatus, selected: str | None) -> int | Registry:
    """Return the revision that the spec resolves to, or how the registry disappoints.

    A digest that is recorded already needs no registry, and neither does a rejected one that nobody wants retried.
    """
    model, failed = model_of(spec, status), status.failed_revision
    digest = known_digest(model.spec, status)
    if digest is None and failed is not None and failed.model == model.spec.model and not retry.is_due(model, selected):
        digest = failed.digest
    if digest is not None:
        return next(index for index, each in enumerate(REVISIONS) if each.digest == digest)
    if registry in (Registry.MISSING, Registry.FAILING):
        return registry
    return MOVED.get(spec.model, spec.model) if registry is Registry.MOVED else spec.model


def resolution(answered: int | Registry) -> Resolution:
    """Return the fact that an answer amounts to."""
    if answered is Registry.MISSING:
        return TagMissing(message="no such tag")
    if isinstance(answered, Registry):
        return ResolutionFailed(message="connection refused")
    return Resolved(revision=REVISIONS[answered])


def model_of(spec: Spec, status: DecisionModelStatus) -> DecisionModel:
    """Return the DecisionModel with that spec and status."""
    return _declared(spec).model_copy(update={"status": status})


@functools.cache
def _declared(spec: Spec) -> DecisionModel:
    annotations = {RETRY_ANNOTATION: str(spec.retry)} if spec.retry else {}
    if spec.approval:
        annotations[PROMOTE_ANNOTATION] = spec.approval
    rollout: dict[str, object] = {"stabilization": "5m" if spec.window else "0s"}
    if spec.manual:
        rollout["promotion"] = "Manual"
    if spec.evaluated:
        rollout["evaluation"] = {
            "datasetRef": {"configMapRef": {"name": "golden", "key": "cases"}},
            "minAccuracy": "0.8",
        }
    if spec.recreate:
        rollout["strategy"] = "Recreate"
    metadata = {"name": "router", "namespace": "default", "uid": "1", "generation": 1, "annotations": annotations}
    replicas = MANY_REPLICAS if spec.scaled else REPLICAS
    fields = {"model": MODELS[spec.model], "replicas": replicas, "rollout": rollout}
    return DecisionModel.model_validate({"metadata": metadata, "spec": fields})

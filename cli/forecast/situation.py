"""What is known when a change is forecast, and the facts of the first pass over it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from api.decisionmodel import DecisionModel
from api.keys import PROMOTE_ANNOTATION, RETRY_ANNOTATION
from components.manifests import MANIFEST_SIZE_LIMIT
from reconciler.controller.lost_records import unrecorded
from reconciler.controller.observation import Children, revision_facts, selected_revision
from reconciler.controller.policy import policy_refusals
from reconciler.controller.revisions import (
    ChosenImage,
    choose_image,
    hashes_of_interest,
    image_refusals,
    known_resolution,
    past_of,
    preflight,
    resolved,
    runtime_update,
)
from reconciler.controller.settings import ControllerSettings
from reconciler.engine.registry import ResolvedManifest
from reconciler.evaluation.dataset import Dataset
from reconciler.rollout import Facts, Refusal, ResolutionFailed, Resolved, TagMissing
from reconciler.rollout.facts import Resolution

UNKNOWN_DIGEST: Final = "0" * 64
"""Stands for the digest of a tag that nobody was asked about: it only goes into names and checks."""

_ACTED_UPON: Final = (RETRY_ANNOTATION, PROMOTE_ANNOTATION)
"""The annotations that the reconciler reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A manifest, and what the cluster and the registry say about its DecisionModel."""

    manifest: DecisionModel
    """As it is to be applied; its status counts for nothing."""
    settings: ControllerSettings
    now: datetime
    live: DecisionModel | None = None
    children: Children = field(default_factory=Children)
    answer: ResolvedManifest | TagMissing | ResolutionFailed | None = None
    """What the registry said about the tag; None when it was not asked."""
    kept: Mapping[str, bytes] = field(default_factory=dict)
    """The manifests in this DecisionModel's ConfigMaps, by revision."""
    conflict: str | None = None
    """A foreign object under a name that would be created."""
    dataset: Dataset | Refusal | None = None
    """The golden data set; None without one, or when it was not read."""
    offline: bool = False
    """Nobody was asked: a tag's digest is taken for known."""

    @property
    def model(self) -> DecisionModel:
        """The DecisionModel as it would be once the manifest is applied."""
        if self.live is None:
            return self.manifest.model_copy(update={"status": type(self.manifest.status)()})
        before, declared = self.live.metadata, self.manifest.metadata
        metadata = before.model_copy(
            update={
                "annotations": {**before.annotations, **declared.annotations},
                "generation": before.generation + (self.live.spec != self.manifest.spec),
            }
        )
        return self.live.model_copy(update={"metadata": metadata, "spec": self.manifest.spec})

    @property
    def image(self) -> ChosenImage | Refusal:
        """The image that the manifest asks for."""
        return choose_image(self.manifest.spec, self.model.status.stable_revision, self.settings)

    @property
    def asks_registry(self) -> bool:
        """Whether the reconciler would have to ask the registry what the tag stands for."""
        image = self.image
        if preflight(self.manifest.spec, self.settings) is not None or not isinstance(image, ChosenImage):
            return False
        return self._known(image) is None

    @property
    def resolution(self) -> Resolution:
        """What the manifest resolves to."""
        spec, status, image = self.manifest.spec, self.model.status, self.image
        if preflight(spec, self.settings) is not None or not isinstance(image, ChosenImage):
            return None
        if known := self._known(image):
            return known
        if isinstance(self.answer, TagMissing | ResolutionFailed):
            return self.answer
        if self.answer is None and not self.offline:
            return None
        digest = UNKNOWN_DIGEST if self.answer is None else self.answer.digest
        return resolved(spec, status, digest, image, self.settings)

    def _known(self, image: ChosenImage) -> Resolved | None:
        model = self.model
        selected = selected_revision(self.children, model.metadata.name, model.metadata.uid)
        return known_resolution(model, selected, image, self.settings)

    @property
    def seeded(self) -> frozenset[str]:
        """The revisions whose manifest ConfigMap is there when their prefetch Job is made."""
        fresh = {self.resolution.revision.hash} if self._keeps and isinstance(self.resolution, Resolved) else set()
        return frozenset({*self.kept, *fresh})

    @property
    def _keeps(self) -> bool:
        """Whether the reconciler would keep the manifest that the registry has just sent."""
        answered = isinstance(self.answer, ResolvedManifest) and len(self.answer.content) <= MANIFEST_SIZE_LIMIT
        return answered and self.asks_registry


def facts_of(situation: Situation) -> Facts:
    """Return what the first pass after applying the manifest would know.

    Secrets are not read: whether a key can be used is only found out by the reconciler.
    """
    model, children, resolution = situation.model, situation.children, situation.resolution
    name, uid = model.metadata.name, model.metadata.uid
    selected = selected_revision(children, name, uid)
    hashes = hashes_of_interest(model.status, resolution, selected)
    return Facts(
        now=situation.now,
        model=model,
        preflight=preflight(model.spec, situation.settings),
        resolution=resolution,
        refusals=(
            *image_refusals(situation.image, resolution, model.status.stable_revision),
            *policy_refusals(model, resolution, children, situation.settings),
        ),
        conflict=situation.conflict,
        revisions={each: revision_facts(children, name, uid, each, past_of(model.status, each)) for each in hashes},
        service_selects=selected,
        unrecorded=unrecorded(model, children, selected, _digest_of(situation, selected), resolution),
        runtime_update=runtime_update(model.status.stable_revision, situation.settings),
    )


def _digest_of(situation: Situation, revision: str | None) -> str | None:
    kept = situation.kept.get(revision or "")
    return None if kept is None else hashlib.sha256(kept).hexdigest()


def acted_upon(model: DecisionModel) -> dict[str, Any]:
    """Return what of a DecisionModel the reconciler acts upon: the spec, and two annotations."""
    annotations = {key: value for key, value in model.metadata.annotations.items() if key in _ACTED_UPON}
    return {"spec": model.spec.dump(), "metadata": {"annotations": annotations} if annotations else {}}

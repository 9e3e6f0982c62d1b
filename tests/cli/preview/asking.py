"""A preview asked of a bed, and what the bed's reconciler then made of the same manifest."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from api.keys import KIND
from cli.connection import ClusterOptions
from cli.forecast import Forecast
from cli.manifests.sources import read_manifests
from cli.preview.environments import default_settings
from cli.preview.reading import ModelPreview, Question, preview
from policy import Configuration
from reconciler.controller.watched import BY_KIND, CONFIG_MAPS
from tests.cli.preview.happenings import KINDS, Happening, Snapshot, happenings, snapshot
from tests.fakes.json_copy import json_copy
from tests.reconciler.controller.bed import KEY, Bed
from tests.reconciler.controller.clocks import START

_RESOURCES = tuple(CONFIG_MAPS if kind == CONFIG_MAPS.kind else BY_KIND[kind] for kind in KINDS)


@dataclass
class Asked:
    """The bed, with the settings that both the preview and the reconciler have."""

    bed: Bed
    policy: Configuration = field(default_factory=Configuration)

    def allow(self, **settings: Any) -> None:
        """Change settings of the reconciler that is not started yet."""
        self.bed.options = replace(self.bed.options, controller=replace(self.bed.options.controller, **settings))

    @staticmethod
    def manifest(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        """The manifest that `Bed.declare` applies."""
        metadata: dict[str, Any] = {"name": KEY.name, "namespace": KEY.namespace}
        if annotations:
            metadata["annotations"] = annotations
        body = {"model": "laya:en", **spec}
        return {"apiVersion": "decisionmodel.io/v1alpha1", "kind": KIND, "metadata": metadata, "spec": body}

    async def preview(self, *documents: Any, knows_settings: bool = True) -> tuple[ModelPreview, ...]:
        """Preview documents; the settings are those of the bed, or what the cluster says of its reconciler."""
        question = Question(
            read=read_manifests(["-"], io.BytesIO(yaml.dump_all(documents, Dumper=yaml.CSafeDumper).encode())),
            settings=self.bed.options.controller if knows_settings else None,
            policy=self.policy,
            now=self.bed.clock.now(),
            cluster=ClusterOptions(kubeconfig=str(self.bed.kubeconfig)),
        )
        return await preview(question)

    @staticmethod
    async def offline(text: str) -> tuple[ModelPreview, ...]:
        """Preview a text without any cluster."""
        question = Question(
            read=read_manifests(["-"], io.BytesIO(text.encode())),
            settings=default_settings(),
            policy=Configuration(),
            now=START,
            cluster=None,
        )
        return await preview(question)

    async def forecast(self, annotations: dict[str, str] | None = None, **spec: Any) -> Forecast:
        """Preview the bed's DecisionModel with another spec."""
        (only,) = await self.preview(self.manifest(annotations, **spec))
        return only.forecast

    def snapshot(self) -> Snapshot:
        """What the cluster holds of the DecisionModel."""
        return snapshot(json_copy([obj for resource in _RESOURCES for obj in self.bed.objects(resource)]))

    async def carry_out(self, annotations: dict[str, str] | None = None, **spec: Any) -> set[Happening]:
        """Apply the manifest and let everything happen; return what became of the objects."""
        before = self.snapshot()
        self.bed.declare(annotations=annotations, **spec)
        await self.bed.settle()
        await self.bed.advance(301)
        await self.bed.advance(11)
        return happenings(before, self.snapshot())

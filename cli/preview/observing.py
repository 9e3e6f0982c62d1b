"""What the cluster and the registry say about a DecisionModel, gathered for its forecast with read rights only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from api.conditions import Reason
from api.decisionmodel import DecisionModel
from api.keys import NAME_LABEL
from api.references import KeyReference
from cli.config_maps import config_map_value
from cli.connection import Reader
from cli.errors import InputError
from cli.forecast import Forecast, Situation, forecast
from cli.preview.registries import Registries
from cli.preview.waiting import telling
from components import names, paths
from components.manifests import ObjectKey
from reconciler.controller.observation import Children, controller_uid, selected_revision, taken_name
from reconciler.controller.revisions import known_hashes
from reconciler.controller.settings import ControllerSettings
from reconciler.controller.watched import (
    BUDGETS,
    BY_KIND,
    CLAIMS,
    CONFIG_MAPS,
    DECISION_MODELS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    SERVICES,
)
from reconciler.evaluation.dataset import Dataset, parse_dataset
from reconciler.evaluation.errors import DatasetInvalid
from reconciler.kernel.resources import KubernetesObject, Resource
from reconciler.rollout import Refusal, Resolved

ConfigMaps = Mapping[tuple[str, str], Any]
"""The ConfigMaps among the manifests, by namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Whom to ask: None for nobody."""

    settings: ControllerSettings
    now: datetime
    reader: Reader | None = None
    registries: Registries | None = None
    config_maps: ConfigMaps


async def foresee(manifest: DecisionModel, sources: Sources) -> Forecast:
    """Return the forecast of one manifest.

    Raises:
        KubernetesError: The API server did not answer, or refused to.
        InputError: What the cluster holds cannot be read.
    """
    situation = Situation(
        manifest=manifest,
        settings=sources.settings,
        now=sources.now,
        offline=sources.reader is None,
        dataset=await _dataset(manifest, sources),
    )
    if sources.reader is not None:
        with telling(f"reading what {manifest.namespaced_name} has in the cluster"):
            situation = await _with_cluster(situation, sources.reader)
    situation = await _with_registry(situation, sources)
    told = forecast(situation)
    if told.is_rollout and told.download is None and situation.answer is None and sources.registries is not None:
        situation = replace(situation, answer=await sources.registries.ask(manifest.spec.model))
        told = forecast(situation)
    if sources.reader is None or not told.created:
        return told
    conflict = await _conflict(situation, sources.reader, told.created)
    return told if conflict is None else forecast(replace(situation, conflict=conflict))


async def _with_cluster(situation: Situation, reader: Reader) -> Situation:
    metadata = situation.manifest.metadata
    found = await reader.get(DECISION_MODELS, metadata.namespace, metadata.name)
    if found is None:
        return situation
    try:
        live = DecisionModel.model_validate(found)
    except ValidationError as error:
        name, problem = situation.manifest.namespaced_name, error.errors()[0]["msg"]
        raise InputError(f"DecisionModel {name} in the cluster cannot be read: {problem}") from error
    situation = replace(situation, live=live, children=await _children(live, reader))
    selected = selected_revision(situation.children, metadata.name, live.metadata.uid)
    serving = (selected,) if selected is not None and names.is_revision(selected) else ()
    return replace(situation, kept=await _kept(live, (*known_hashes(live.status), *serving), reader))


async def _children(live: DecisionModel, reader: Reader) -> Children:
    async def of(resource: Resource) -> tuple[KubernetesObject, ...]:
        selector = f"{NAME_LABEL}={live.metadata.name}"
        return tuple(await reader.list(resource, live.metadata.namespace, label_selector=selector))

    kinds = (DEPLOYMENTS, REPLICA_SETS, JOBS, CLAIMS, SERVICES, BUDGETS, PODS)
    return Children(*await asyncio.gather(*map(of, kinds)))


async def _kept(live: DecisionModel, revisions: Any, reader: Reader) -> dict[str, bytes]:
    """Return the manifests that are kept in this DecisionModel's own ConfigMaps."""
    kept: dict[str, bytes] = {}
    for revision in dict.fromkeys(revisions):
        name = names.manifest_config_map(live.metadata.name, revision)
        found = await reader.get(CONFIG_MAPS, live.metadata.namespace, name)
        if found is not None and controller_uid(found) == live.metadata.uid:
            kept[revision] = config_map_value(found, paths.SEED_KEY) or b""
    return kept


async def _with_registry(situation: Situation, sources: Sources) -> Situation:
    """Ask for the tag where the reconciler would, and look whether the wanted revision's manifest is kept already."""
    if situation.asks_registry and sources.registries is not None:
        situation = replace(situation, answer=await sources.registries.ask(situation.manifest.spec.model))
    resolution = situation.resolution
    if sources.reader is None or situation.live is None or not isinstance(resolution, Resolved):
        return situation
    if resolution.revision.hash in situation.kept:
        return situation
    further = await _kept(situation.live, (resolution.revision.hash,), sources.reader)
    return replace(situation, kept={**situation.kept, **further})


async def _conflict(situation: Situation, reader: Reader, created: tuple[ObjectKey, ...]) -> str | None:
    """Return the object of another owner that has a name of ours; the reconciler looks names up as well."""
    metadata = situation.model.metadata
    for kind, name in created:
        found = await reader.get(BY_KIND[kind], metadata.namespace, name)
        if conflict := taken_name(found, kind, metadata.uid):
            return conflict
    return None


async def _dataset(manifest: DecisionModel, sources: Sources) -> Dataset | Refusal | None:
    """Return the golden data set; None without one, or when nobody may be asked for it. Secrets are never read."""
    evaluation = manifest.spec.rollout.evaluation
    if evaluation is None or evaluation.dataset_ref.config_map_ref is None:
        return None
    key, namespace = evaluation.dataset_ref.config_map_ref, manifest.metadata.namespace
    config_map = sources.config_maps.get((namespace, key.name))
    if config_map is None:
        if sources.reader is None:
            return None
        config_map = await _config_map(sources.reader, namespace, key.name)
    if config_map is None:
        return Refusal(reason=Reason.DATASET_NOT_FOUND, message=f"ConfigMap {key.name} does not exist")
    return await _parsed(config_map, key, evaluation.max_cases)


async def _config_map(reader: Reader, namespace: str, name: str) -> KubernetesObject | None:
    try:
        return await reader.get(CONFIG_MAPS, namespace, name)
    except ValueError:
        # The API takes any text for a reference; no object can have this one for its name.
        return None


async def _parsed(config_map: Any, key: KeyReference, max_cases: int) -> Dataset | Refusal:
    content = config_map_value(config_map, key.key)
    if content is None:
        message = f"ConfigMap {key.name} has no usable key {key.key}"
        return Refusal(reason=Reason.DATASET_KEY_NOT_FOUND, message=message)
    try:
        return await asyncio.to_thread(parse_dataset, content, max_cases)
    except DatasetInvalid as error:
        return Refusal(reason=Reason.DATASET_INVALID, message=str(error))

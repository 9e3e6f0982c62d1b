"""Which DecisionModels the manifests hold, and the forecast of each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import click
import httpx2
from pydantic import ValidationError

from api.decisionmodel import DecisionModel
from cli.connection import ClusterOptions, open_cluster
from cli.errors import InputError
from cli.forecast import Forecast, Outcome, Refused
from cli.manifests.sources import Manifests, SourcedManifest
from cli.policy.offline import rendered_objects
from cli.policy.verdict import LocatedFinding, judge
from cli.preview.environments import default_settings
from cli.preview.live import LiveReconciler, live_reconciler
from cli.preview.observing import ConfigMaps, Sources, foresee
from cli.preview.registries import Registries
from cli.texts import printable
from components.environment import unwatched
from policy import Configuration, Level
from policy.navigation import at, text
from policy.objects import DECISION_MODEL, kind_of
from reconciler.controller.settings import ControllerSettings
from reconciler.engine.errors import EngineError
from reconciler.engine.registry_policy import RegistryPolicy
from reconciler.kernel.errors import KernelError

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CONFIG_MAP: Final = "ConfigMap"
_INVALID: Final = "Invalid"
"""What the API server calls a manifest that it does not take."""
_NOT_WATCHED: Final = "NotWatched"
"""Of what no reconciler looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a preview is asked about.

    Attributes:
        read: The manifests.
        settings: The reconciler that would act on them; None for the cluster's own, or the defaults of one.
        policy: The rules that they are judged by.
        cluster: Where they would be applied; None to ask nobody.
        now: The time, which deadlines of rollouts under way are held against.
        namespace: Of manifests that name none; None for that of the kubeconfig's context.
        watched: The namespaces that the reconciler looks after; none for all.
    """

    read: Manifests
    settings: ControllerSettings | None
    policy: Configuration
    cluster: ClusterOptions | None
    now: datetime
    namespace: str | None = None
    watched: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPreview:
    """One DecisionModel: where it is declared, what would happen, and what the rules find."""

    namespace: str
    name: str
    file: str
    line: int
    forecast: Forecast
    findings: tuple[LocatedFinding, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """What it comes to, the rules included."""
        told = self.forecast.outcome
        return Outcome.REFUSED if self._is_blocked and told is not Outcome.ERROR else told

    @property
    def refused(self) -> Refused | None:
        """Why nothing would come of it."""
        if self.forecast.refused is None and self._is_blocked:
            mandatory = [each for each in self.findings if each.finding.level is Level.MANDATORY]
            return Refused("PolicyViolation", f"{len(mandatory)} mandatory: {mandatory[0].finding.message}")
        return self.forecast.refused

    @property
    def _is_blocked(self) -> bool:
        return any(each.finding.level is Level.MANDATORY for each in self.findings)


async def preview(question: Question) -> tuple[ModelPreview, ...]:
    """Return what would become of every DecisionModel, in the order of the manifests.

    Raises:
        InputError: The cluster cannot be asked, or the manifests name no DecisionModel, or one of them twice.
    """
    async with AsyncExitStack() as stack:
        reader, registries, namespace = None, None, question.namespace or "default"
        if question.cluster is not None:
            cluster = await stack.enter_async_context(open_cluster(question.cluster))
            reader, namespace = cluster.reader, question.namespace or cluster.namespace
            if question.settings is None:
                question = _with(question, await live_reconciler(cluster.reader))
            registries = _registries((question.settings or default_settings()).registries, cluster.api)
            stack.push_async_callback(registries.close)
        placed = replace(question, read=_placed(question.read, namespace))
        sources = Sources(
            settings=question.settings or default_settings(),
            now=question.now.replace(microsecond=0),
            reader=reader,
            registries=registries,
            config_maps=_config_maps(placed.read),
        )
        try:
            return tuple([await _preview(each, sources) for each in _declared(placed)])
        except KernelError as error:
            raise InputError(
                str(error), "A preview has to read the cluster; --offline predicts without one."
            ) from error


def _with(question: Question, live: LiveReconciler | str) -> Question:
    """Return the question about the cluster's own reconciler, and say what is supposed where that cannot be told."""
    if isinstance(live, str):
        click.echo(printable(f"{live}; the reconciler's defaults are supposed, --stack names an environment"), err=True)
        return question
    if live.enforces_rules:
        click.echo("the reconciler has policy rules of its own; --stack or --policy-config names them here", err=True)
    return replace(question, settings=live.settings, watched=live.watched)


def _registries(policy: RegistryPolicy, api: httpx2.AsyncClient) -> Registries:
    try:
        return Registries(policy, api)
    except EngineError as error:
        raise InputError(f"{error}.", "A preview has to ask registries; --offline predicts without them.") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """A DecisionModel of the manifests: read, or why it cannot be; with what the rules find in it."""

    source: SourcedManifest
    namespace: str
    name: str
    model: DecisionModel | Refused
    findings: tuple[LocatedFinding, ...]


def _placed(read: Manifests, namespace: str) -> Manifests:
    """Return the manifests with their namespace, since rules that compare them look at it."""
    manifests = (replace(each, value=_in_namespace(each.value, namespace)) for each in read.manifests)
    return replace(read, manifests=tuple(manifests))


def _in_namespace(manifest: Any, namespace: str) -> Any:
    metadata = at(manifest, "metadata")
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, Mapping) or metadata.get("namespace"):
        return manifest
    return {**manifest, "metadata": {**metadata, "namespace": namespace}}


def _declared(question: Question) -> Iterable[_Declared]:
    findings = judge(question.read, question.policy, rendered_objects).findings
    declared: dict[tuple[str, str], _Declared] = {}
    for position, source in enumerate(question.read.manifests):
        if kind_of(source.value) not in DECISION_MODEL:
            continue
        own = tuple(each for each in findings if each.finding.position == position)
        each = _read(source, question.watched, own)
        if (each.namespace, each.name) in declared:
            raise InputError(
                f"{source.file}:{source.line()}: DecisionModel {each.namespace}/{each.name} is there twice"
            )
        declared[each.namespace, each.name] = each
    if not declared:
        raise InputError("there is no DecisionModel to preview in what was given")
    return declared.values()


def _read(source: SourcedManifest, watched: Collection[str], findings: tuple[LocatedFinding, ...]) -> _Declared:
    metadata = at(source.value, "metadata")
    namespace = text(at(metadata, "namespace"))
    return _Declared(
        source=source,
        namespace=namespace,
        name=text(at(metadata, "name")),
        model=_model(source.value, namespace, watched),
        findings=findings,
    )


def _model(manifest: Any, namespace: str, watched: Collection[str]) -> DecisionModel | Refused:
    """Return the DecisionModel, or why the API server would not take it or nobody would look at it."""
    try:
        model = DecisionModel.model_validate({**manifest, "status": None})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        return Refused(_INVALID, f"{place or 'the object'}: {first['msg'].removeprefix('Value error, ')}")
    if not _NAMESPACE.fullmatch(namespace):
        return Refused(_INVALID, f"metadata.namespace: {namespace[:80]!r} cannot be the name of a namespace")
    problem = unwatched(namespace, watched)
    return model if problem is None else Refused(_NOT_WATCHED, problem)


async def _preview(declared: _Declared, sources: Sources) -> ModelPreview:
    return ModelPreview(
        namespace=declared.namespace,
        name=declared.name,
        file=declared.source.file,
        line=declared.source.line(),
        forecast=await _forecast(declared.model, sources),
        findings=declared.findings,
    )


async def _forecast(model: DecisionModel | Refused, sources: Sources) -> Forecast:
    if isinstance(model, Refused):
        return Forecast(outcome=Outcome.REFUSED, refused=model)
    return await foresee(model, sources)


def _config_maps(read: Manifests) -> ConfigMaps:
    found: dict[tuple[str, str], Any] = {}
    for source in read.manifests:
        if kind_of(source.value) == _CONFIG_MAP:
            metadata = at(source.value, "metadata")
            found[text(at(metadata, "namespace")), text(at(metadata, "name"))] = source.value
    return found

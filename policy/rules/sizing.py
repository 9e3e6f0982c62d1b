"""Whether a model fits into what it is given (spec sections 4.6 and 12.3)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import Field

from policy.figures import known_figures
from policy.navigation import JsonObject, Path, at, mapping, text
from policy.objects import DECISION_MODEL, MODELS_AND_WORKLOADS, all_containers, kind_of
from policy.quantities import less, mebibytes, quantity
from policy.rule import Level, Problem, Rule, Settings, Subject
from reconciler.engine.registry_policy import DEFAULT_REGISTRY_URL
from reconciler.engine.resources import GPU, default_requests

_RESOURCES: Final = ("spec", "resources")
_LIMIT: Final = (*_RESOURCES, "limits", "memory")
_CACHE: Final = ("spec", "cache", "size")
_NOTHING: Final = Decimal(0)


class Headroom(Settings):
    """How much more memory than the measured one a limit should leave."""

    factor: Annotated[float, Field(ge=1, le=10)] = 1.4
    """The memory limit over the model's measured anonymous memory."""


def _declared(subject: Subject) -> Iterator[tuple[Path, JsonObject]]:
    if kind_of(subject.object) in DECISION_MODEL:
        yield _RESOURCES, mapping(at(subject.object, *_RESOURCES))
    for path, fields in all_containers(subject.object):
        yield (*path, "resources"), mapping(fields.get("resources"))


def _requested(subject: Subject, _: Settings) -> Iterator[Problem]:
    for path, resources in _declared(subject):
        named = {*mapping(resources.get("requests")), *mapping(resources.get("limits")), *_defaults(subject.object)}
        # What a GPU's Pod needs of the node's memory was never measured, so nothing is asked for by default either.
        needed = ("cpu",) if GPU in named or _device(subject.object) == "cuda" else ("cpu", "memory")
        for resource in needed:
            if resource not in named:
                yield Problem((*path, "requests", resource), f"asks for no {resource}, and no default is known")


def _defaults(manifest: JsonObject) -> dict[str, str]:
    if kind_of(manifest) not in DECISION_MODEL:
        return {}
    model = text(at(manifest, "spec", "model"))
    return default_requests(model, _device(manifest), DEFAULT_REGISTRY_URL)


def _device(manifest: JsonObject) -> str:
    return text(at(manifest, "spec", "device")) or "cpu"


def _within_limits(subject: Subject, _: Settings) -> Iterator[Problem]:
    for path, resources in _declared(subject):
        limits = mapping(resources.get("limits"))
        for resource, request in mapping(resources.get("requests")).items():
            requested = quantity(request)
            if requested is not None and less(limits.get(resource), requested):
                problem = f"asks for {request} of {resource}, more than its limit {limits[resource]}"
                yield Problem((*path, "requests", resource), problem)


def _possible(subject: Subject, _: Settings) -> Iterator[Problem]:
    for path, resources in _declared(subject):
        for part in ("requests", "limits"):
            for resource, amount in mapping(resources.get(part)).items():
                if less(amount, _NOTHING):
                    yield Problem((*path, part, resource), f"{amount} is negative")
    size = at(subject.object, *_CACHE)
    if kind_of(subject.object) in DECISION_MODEL and (less(size, _NOTHING) or quantity(size) == _NOTHING):
        yield Problem(_CACHE, f"{size} is no size of a store")


def _measured_limit(subject: Subject) -> Iterator[tuple[Any, Decimal]]:
    """Yield the memory limit and the measured need of a known model on a CPU."""
    figures, limit = known_figures(subject.object), at(subject.object, *_LIMIT)
    needed = None if figures is None else quantity(figures.memory)
    if needed is not None and limit is not None and _device(subject.object) == "cpu":
        yield limit, needed


def _holds_model(subject: Subject, _: Settings) -> Iterator[Problem]:
    for limit, needed in _measured_limit(subject):
        if less(limit, needed):
            yield Problem(_LIMIT, f"the model needs {mebibytes(needed)}, so it would be killed at {limit}")


def _headroom(subject: Subject, settings: Headroom) -> Iterator[Problem]:
    for limit, needed in _measured_limit(subject):
        advised = needed * Decimal(str(settings.factor))
        if not less(limit, needed) and less(limit, advised):
            problem = f"{limit} is less than {mebibytes(advised)}, which is {settings.factor} times what was measured"
            yield Problem(_LIMIT, problem)


def _cache_holds_model(subject: Subject, _: Settings) -> Iterator[Problem]:
    figures, size = known_figures(subject.object), at(subject.object, *_CACHE)
    if figures is not None and figures.download is not None and less(size, figures.download):
        yield Problem(_CACHE, f"the model's files take {figures.download}, which do not fit into {size}")


def _cache_headroom(subject: Subject, _: Settings) -> Iterator[Problem]:
    figures, size = known_figures(subject.object), at(subject.object, *_CACHE)
    if figures is None or figures.download is None or figures.cache is None:
        return
    if less(size, figures.cache) and not less(size, figures.download):
        yield Problem(_CACHE, f"{size} is less than the {figures.cache} that are recommended for this model")


RULES: Final = (
    Rule(
        id="resources-requested",
        why="A Pod without requests is placed where there is no room and is the first to be evicted.",
        remedy="Set `resources.requests` for cpu and memory; models with known needs have defaults.",
        level=Level.ADVISORY,
        kinds=MODELS_AND_WORKLOADS,
        examine=_requested,
    ),
    Rule(
        id="amounts-possible",
        why="The cluster refuses negative amounts and a store of no size, so the rollout could only fail.",
        remedy="Give a positive amount, or leave it out for the default.",
        level=Level.MANDATORY,
        kinds=MODELS_AND_WORKLOADS,
        examine=_possible,
    ),
    Rule(
        id="requests-within-limits",
        why="The cluster refuses Pods that ask for more than they may use, so the rollout could only fail.",
        remedy="Lower the request or raise the limit.",
        level=Level.MANDATORY,
        kinds=MODELS_AND_WORKLOADS,
        examine=_within_limits,
    ),
    Rule(
        id="memory-limit-holds-model",
        why="A limit below what the model was measured to need kills every Pod while it loads.",
        remedy="Raise `resources.limits.memory` to about 1.4 times the model's anonymous memory.",
        level=Level.MANDATORY,
        kinds=DECISION_MODEL,
        examine=_holds_model,
    ),
    Rule(
        id="memory-limit-headroom",
        why="Long inputs take more memory than a model at rest, and a limit without room ends in restarts.",
        remedy="Raise `resources.limits.memory` to `factor` times the model's anonymous memory.",
        level=Level.ADVISORY,
        kinds=DECISION_MODEL,
        settings=Headroom,
        examine=_headroom,
    ),
    Rule(
        id="cache-holds-model",
        why="A store smaller than the model's files lets every prefetch fail.",
        remedy="Raise `cache.size`, or leave it out for the default of 10Gi.",
        level=Level.MANDATORY,
        kinds=DECISION_MODEL,
        examine=_cache_holds_model,
    ),
    Rule(
        id="cache-headroom",
        why="A store that just holds today's files may not hold those of the tag's next version.",
        remedy="Raise `cache.size` to the recommended size, or leave it out for the default of 10Gi.",
        level=Level.ADVISORY,
        kinds=DECISION_MODEL,
        examine=_cache_headroom,
    ),
)

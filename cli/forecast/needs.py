"""What Pods ask of the cluster before, during and after a change: requests and limits of the rendered objects. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Self

from api.keys import REVISION_LABEL
from api.quantity import parse_quantity
from cli.forecast.objects import Rendered, rolled
from cli.forecast.situation import Situation
from components.desired import JsonObject
from reconciler.controller.observation import conditions_of, controller_uid, is_true
from reconciler.engine.resources import GPU
from reconciler.rollout import Facts, PrefetchState

_ZERO: Final = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """A sum over Pods and claims; memory and storage in bytes, CPU in cores."""

    cpu: Decimal = _ZERO
    memory: Decimal = _ZERO
    memory_limit: Decimal = _ZERO
    """Pods without a limit count with nothing."""
    gpus: Decimal = _ZERO
    storage: Decimal = _ZERO

    def __add__(self, other: Needs) -> Needs:
        return self._combined(other, lambda mine, others: mine + others)

    def __sub__(self, other: Needs) -> Needs:
        return self._combined(other, lambda mine, others: mine - others)

    def largest(self, other: Needs) -> Needs:
        """Return the larger of each quantity."""
        return self._combined(other, max)

    def times(self, count: int) -> Needs:
        """Return the needs of so many."""
        return self._combined(self, lambda mine, _: mine * count)

    def _combined(self, other: Needs, combine: Any) -> Self:
        return type(self)(
            cpu=combine(self.cpu, other.cpu),
            memory=combine(self.memory, other.memory),
            memory_limit=combine(self.memory_limit, other.memory_limit),
            gpus=combine(self.gpus, other.gpus),
            storage=combine(self.storage, other.storage),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsOverTime:
    """What is reserved now, at most while the change is carried out, and when it has settled."""

    before: Needs
    peak: Needs
    after: Needs

    @property
    def extra(self) -> Needs:
        """What has to be free for the change to succeed."""
        return self.peak - self.before


def needs_over_time(situation: Situation, course: tuple[Rendered, ...]) -> NeedsOverTime:
    """Add up what every pass's objects reserve; the peak is that of each quantity by itself."""
    before = after = peak = _live(situation)
    for each in course:
        if each.manifests is not None:
            objects = [manifest.object for manifest in each.manifests]
            after = _sum(_reserved(objects, each.at.facts))
            peak = peak.largest(after + _surge(situation, each))
    return NeedsOverTime(before=before, peak=peak, after=after)


def _live(situation: Situation) -> Needs:
    uid = situation.model.metadata.uid
    owned = [obj for obj in situation.children.of_stack() if controller_uid(obj) == uid]
    running = (obj for obj in owned if obj["kind"] != "Job" or not _ended(obj))
    return _sum(map(_of_object, running))


def _ended(job: JsonObject) -> bool:
    conditions = conditions_of(job)
    return is_true(conditions, "Complete") or is_true(conditions, "Failed")


def _reserved(objects: Iterable[JsonObject], facts: Facts) -> Iterator[Needs]:
    """Yield what each object reserves; a Job that has ended reserves nothing."""
    for obj in objects:
        revision = facts.revisions.get(obj["metadata"]["labels"].get(REVISION_LABEL, ""))
        over = revision is not None and revision.prefetch.state in (PrefetchState.COMPLETE, PrefetchState.FAILED)
        if obj["kind"] != "Job" or not over:
            yield _of_object(obj)


def _of_object(obj: JsonObject) -> Needs:
    spec = obj["spec"]
    match obj["kind"]:
        case "Deployment":
            return _of_pod(spec["template"]["spec"]).times(spec.get("replicas", 1))
        case "Job":
            return _of_pod(spec["template"]["spec"])
        case "PersistentVolumeClaim":
            return Needs(storage=parse_quantity(spec["resources"]["requests"]["storage"]))
        case _:
            return Needs()


def _of_pod(spec: JsonObject) -> Needs:
    return _sum(_of_container(container.get("resources") or {}) for container in spec.get("containers") or ())


def _of_container(resources: Mapping[str, Any]) -> Needs:
    limits = resources.get("limits") or {}
    # Kubernetes requests what is only limited.
    requests = {**limits, **(resources.get("requests") or {})}
    return Needs(
        cpu=parse_quantity(requests.get("cpu", 0)),
        memory=parse_quantity(requests.get("memory", 0)),
        memory_limit=parse_quantity(limits.get("memory", 0)),
        gpus=parse_quantity(requests.get(GPU, 0)),
    )


def _surge(situation: Situation, each: Rendered) -> Needs:
    """Return what Deployments add that replace their Pods while these run."""
    specs = (deployment.object["spec"] for deployment in rolled(situation, each))
    return _sum(_of_pod(spec["template"]["spec"]).times(_surging(spec)) for spec in specs)


def _surging(spec: JsonObject) -> int:
    surge = (spec["strategy"].get("rollingUpdate") or {}).get("maxSurge", 0)
    if isinstance(surge, int):
        return surge
    return math.ceil(int(spec["replicas"]) * int(str(surge).removesuffix("%")) / 100)


def _sum(needs: Iterable[Needs]) -> Needs:
    total = Needs()
    for each in needs:
        total += each
    return total

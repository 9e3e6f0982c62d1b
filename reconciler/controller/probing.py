"""The prober: asks runtimes what they have loaded and opens or closes Pods' readiness gates (spec section 6)."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from api.conditions import EventReason
from api.keys import GATE, GATE_FIELD_MANAGER
from components.desired import JsonObject
from reconciler.controller.observation import conditions_of, is_true, name_of, uid_of
from reconciler.controller.watched import PODS
from reconciler.engine.errors import RuntimeCallError
from reconciler.engine.gate import (
    ExpectedModel,
    GateReason,
    GateVerdict,
    Inspection,
    ProbeMemory,
    after_inspection,
    needs_warm_up,
)
from reconciler.engine.names import ModelName
from reconciler.engine.runtime import RuntimeClient
from reconciler.kernel.background import BackgroundTasks, TaskKey
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import Conflict, Invalid, NotFound
from reconciler.kernel.resources import KubernetesObject, ObjectKey
from reconciler.kernel.workers import REQUEUE_JITTER
from reconciler.rollout import timing
from reconciler.turns import FairSlots

PROBE_TASKS = "probe"
REINSPECT_SECONDS = timing.RECHECK_READY * (1 - REQUEUE_JITTER) - 4.0
"""A little less than lies between two passes over a ready model at the least, so that each of them inspects."""
RETRY_SECONDS = 4.0
"""Between probes of a Pod whose gate is closed."""
WRITES_AT_ONCE = 16
"""Gates being written; with those of a whole fleet at once, the API client would have no connection left for others."""

_MISMATCHES = (GateReason.DIGEST_MISMATCH, GateReason.DEVICE_MISMATCH, GateReason.NOT_PINNED)
PROBE_RESULTS = {
    GateReason.MODEL_READY: "ready",
    GateReason.DIGEST_MISMATCH: "digest_mismatch",
    GateReason.DEVICE_MISMATCH: "device_mismatch",
    GateReason.NOT_PINNED: "not_pinned",
    GateReason.PROBE_ERROR: "error",
}
"""The `result` label of `decisionmodel_probe_results_total` (spec section 10.1)."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the Pods of one revision must prove, and how to ask them."""

    owner: ObjectKey
    revision: str
    expected: ExpectedModel
    api_key: str | None
    warm_up_seconds: float

    def __repr__(self) -> str:
        return f"Target({self.owner}, {self.revision})"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateChange:
    """A gate that was opened or closed."""

    owner: ObjectKey
    pod: str
    verdict: GateVerdict

    @property
    def result(self) -> str:
        """The `result` label of `decisionmodel_probe_results_total`."""
        return PROBE_RESULTS[self.verdict.reason]

    @property
    def event(self) -> EventReason | None:
        """The Event that is due, if one is."""
        return EventReason.PROBE_MISMATCH if self.verdict.reason in _MISMATCHES else None


@dataclass(frozen=True, slots=True)
class _Gate:
    """The gate as a Pod carries it."""

    status: str | None
    reason: str | None
    changed_at: datetime | None

    @property
    def is_open(self) -> bool:
        return self.status == "True"


@dataclass(slots=True)
class _Known:
    """What is remembered about one Pod. A probe fills in its own: one that ends late leaves nothing behind."""

    revision: str
    memory: ProbeMemory = field(default_factory=ProbeMemory)
    probed_at: float = -math.inf
    precision: str = ""


class Prober:
    """Probes Pods in the background and writes their gates; what it remembers may be lost at any time.

    Args:
        client: Writes `pods/status`.
        runtime: Talks to the Pods.
        background: Where probes run, one per Pod.
        on_change: Told about every gate that changed.
        on_written: Given the Pod that a write returned, so that the next pass sees it at once.
        clock: Monotonic seconds.
        now: Wall clock, for transition times.
    """

    def __init__(  # noqa: PLR0913 - collaborators, and the injected clocks
        self,
        client: KubernetesClient,
        runtime: RuntimeClient,
        background: BackgroundTasks,
        *,
        on_change: Callable[[GateChange], None],
        on_written: Callable[[KubernetesObject], object],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._runtime = runtime
        self._background = background
        self._on_change = on_change
        self._on_written = on_written
        self._clock = clock
        self._now = now
        self._writes = FairSlots(WRITES_AT_ONCE)
        self._pods: dict[ObjectKey, dict[str, _Known]] = {}

    def precision(self, owner: ObjectKey, revision: str) -> str:
        """Return the precision that living Pods of a revision of `owner` reported; empty while none has.

        Equal specs have equal revisions in every namespace, but what one's Pods say is not told of another's.
        """
        pods = self._pods.get(owner, {}).values()
        return next((pod.precision for pod in pods if pod.revision == revision and pod.precision), "")

    def probe(self, target: Target, pods: Collection[JsonObject]) -> float | None:
        """Start the probes that are due; return the seconds until the next one is.

        None when no Pod needs one before the next pass: each is proved, or being probed, whose end queues the owner.
        """
        waits = [wait for pod in pods if (wait := self._probe_if_due(target, pod)) is not None]
        return min(waits, default=None)

    def forget(self, owner: ObjectKey, living: Collection[str]) -> None:
        """Drop what is remembered about Pods of `owner` that are gone, and cancel their probes."""
        known = self._pods.get(owner, {})
        for uid in known.keys() - set(living):
            del known[uid]
            self._background.cancel(owner, PROBE_TASKS, uid)
        if not known:
            self._pods.pop(owner, None)

    def _probe_if_due(self, target: Target, pod: JsonObject) -> float | None:
        conditions = conditions_of(pod)
        if not pod.get("status", {}).get("podIP") or not is_true(conditions, "ContainersReady"):
            return None
        uid, gate = uid_of(pod), _gate(pod)
        task = TaskKey(target.owner, PROBE_TASKS, uid)
        if self._background.running(task):
            return None
        known = self._pods.setdefault(target.owner, {}).setdefault(uid, _Known(target.revision))
        proved = gate.is_open and not _needs_warm_up(known, pod)
        wait = known.probed_at + (REINSPECT_SECONDS if proved else RETRY_SECONDS) - self._clock()
        if wait > 0:
            return None if proved else max(wait, 0.1)
        outcome = self._background.take(task)
        if outcome is not None and outcome.error is not None:
            _log.warning("the gate of Pod %s could not be kept up: %r", name_of(pod), outcome.error)
        self._background.start(task, lambda: self._probe(target, pod, known))
        return None

    async def _probe(self, target: Target, pod: JsonObject, known: _Known) -> None:
        try:
            if _gate(pod).is_open and _needs_warm_up(known, pod):
                # The containers started anew, so nothing is loaded: no traffic until it is.
                closed = await self._write(target, pod, _loading(target))
                if closed is None:
                    return
                pod = closed
            await self._prove(target, pod, known)
        finally:
            known.probed_at = self._clock()

    async def _prove(self, target: Target, pod: JsonObject, known: _Known) -> None:
        inspection = await self._inspect(target, pod, known)
        outcome = after_inspection(known.memory, inspection, target.expected, gate_open=_gate(pod).is_open)
        known.memory = outcome.memory
        if outcome.verdict is None:
            return
        if outcome.verdict.ready:
            known.precision = outcome.verdict.precision or ""
        await self._write(target, pod, outcome.verdict)

    async def _inspect(self, target: Target, pod: JsonObject, known: _Known) -> Inspection:
        address = str(pod["status"]["podIP"])
        try:
            if _needs_warm_up(known, pod):
                reference = ModelName.parse(target.expected.name).reference
                await self._runtime.warm_up(address, reference, target.api_key, timeout_seconds=target.warm_up_seconds)
                known.memory = replace(known.memory, warmed_up_for=_containers_ready_at(pod))
            inspection = await self._runtime.inspect(address, target.api_key, tenant=target.owner.namespace)
        except RuntimeCallError as error:
            return error
        # What another process has proved is proved again by what the runtime has in memory now.
        known.memory = replace(known.memory, warmed_up_for=_containers_ready_at(pod))
        return inspection

    async def _write(self, target: Target, pod: JsonObject, verdict: GateVerdict) -> KubernetesObject | None:
        """Write what the gate should say; return the Pod as it is now, None when it is gone or says so already."""
        gate, status = _gate(pod), "True" if verdict.ready else "False"
        if (gate.status, gate.reason) == (status, str(verdict.reason)):
            return None
        metadata = pod["metadata"]
        since = gate.changed_at if gate.status == status and gate.changed_at else self._now()
        condition = {
            "type": GATE,
            "status": status,
            "reason": str(verdict.reason),
            "message": verdict.message,
            "lastTransitionTime": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        # With the UID in the body, a Pod that was replaced under its name is refused and not given another's proof.
        body: dict[str, Any] = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [condition]}}
        try:
            async with self._writes.hold(target.owner.namespace):
                written = await self._client.apply(
                    PODS,
                    metadata["namespace"],
                    metadata["name"],
                    body,
                    subresource="status",
                    field_manager=GATE_FIELD_MANAGER,
                )
        except (NotFound, Conflict, Invalid) as error:
            _log.info("the Pod %s is gone or replaced: %s", name_of(pod), error)
            return None
        _log.info("gate of Pod %s: %s, %s", name_of(pod), verdict.reason, verdict.message)
        self._on_written(written)
        self._on_change(GateChange(owner=target.owner, pod=name_of(pod), verdict=verdict))
        return written


def _loading(target: Target) -> GateVerdict:
    message = f"the containers were restarted; {target.expected.name} is being loaded"
    return GateVerdict(reason=GateReason.PROBE_ERROR, message=message)


def _gate(pod: JsonObject) -> _Gate:
    condition = conditions_of(pod).get(GATE, {})
    return _Gate(condition.get("status"), condition.get("reason"), _time(condition.get("lastTransitionTime")))


def _needs_warm_up(known: _Known, pod: JsonObject) -> bool:
    return needs_warm_up(known.memory, gate_open=_gate(pod).is_open, containers_ready_at=_containers_ready_at(pod))


def _containers_ready_at(pod: JsonObject) -> datetime:
    since = _time(conditions_of(pod).get("ContainersReady", {}).get("lastTransitionTime"))
    return since or datetime.min.replace(tzinfo=UTC)


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None

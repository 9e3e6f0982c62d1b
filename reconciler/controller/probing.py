"""The prober: asks runtimes what they have loaded and opens or closes Pods' readiness gates (spec section 6)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
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

PROBE_TASKS = "probe"
REINSPECT_SECONDS = timing.RECHECK_READY * (1 - REQUEUE_JITTER) - 4.0
"""A little less than lies between two passes over a ready model at the least, so that each of them inspects."""
RETRY_SECONDS = 4.0
"""Between probes of a Pod whose gate is closed."""

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
        self._memories: dict[str, ProbeMemory] = {}
        self._probed_at: dict[str, float] = {}
        self._precisions: dict[str, str] = {}
        self._pods: dict[ObjectKey, set[str]] = {}

    def precision(self, revision: str) -> str:
        """Return the precision that Pods of a revision reported; empty while none has."""
        return self._precisions.get(revision, "")

    def probe(self, target: Target, pods: Collection[JsonObject]) -> float | None:
        """Start the probes that are due; return the seconds until the next one is, None when all Pods are proved."""
        waits = [wait for pod in pods if (wait := self._probe_if_due(target, pod)) is not None]
        return min(waits, default=None)

    def forget(self, owner: ObjectKey, living: Collection[str]) -> None:
        """Drop what is remembered about Pods of `owner` that are gone."""
        for uid in self._pods.get(owner, set()) - set(living):
            self._memories.pop(uid, None)
            self._probed_at.pop(uid, None)
        self._pods[owner] = self._pods.get(owner, set()) & set(living)
        if not self._pods[owner]:
            del self._pods[owner]

    def _probe_if_due(self, target: Target, pod: JsonObject) -> float | None:
        conditions = conditions_of(pod)
        if not pod.get("status", {}).get("podIP") or not is_true(conditions, "ContainersReady"):
            return None
        uid, gate = uid_of(pod), _gate(pod)
        self._pods.setdefault(target.owner, set()).add(uid)
        task = TaskKey(target.owner, PROBE_TASKS, uid)
        restarted = gate.is_open and self._needs_warm_up(pod, gate)
        pause = REINSPECT_SECONDS if gate.is_open and not restarted else RETRY_SECONDS
        wait = self._probed_at.get(uid, -pause) + pause - self._clock()
        if wait <= 0 and not self._background.running(task):
            outcome = self._background.take(task)
            if outcome is not None and outcome.error is not None:
                _log.warning("the gate of Pod %s could not be kept up: %r", name_of(pod), outcome.error)
            self._background.start(task, lambda: self._probe(target, pod))
            wait = pause
        return None if gate.is_open and not restarted else max(wait, 0.1)

    async def _probe(self, target: Target, pod: JsonObject) -> None:
        uid = uid_of(pod)
        self._probed_at[uid] = self._clock()
        if _gate(pod).is_open and self._needs_warm_up(pod, _gate(pod)):
            # The containers started anew, so nothing is loaded: no traffic until it is.
            closed = await self._write(target, pod, _loading(target))
            if closed is None:
                return
            pod = closed
        try:
            inspection = await self._inspect(target, pod)
        finally:
            self._probed_at[uid] = self._clock()
        memory = self._memories.get(uid, ProbeMemory())
        outcome = after_inspection(memory, inspection, target.expected, gate_open=_gate(pod).is_open)
        self._memories[uid] = outcome.memory
        if outcome.verdict is None:
            return
        if outcome.verdict.ready and outcome.verdict.precision:
            self._precisions[target.revision] = outcome.verdict.precision
        await self._write(target, pod, outcome.verdict)

    async def _inspect(self, target: Target, pod: JsonObject) -> Inspection:
        address = str(pod["status"]["podIP"])
        try:
            if self._needs_warm_up(pod, _gate(pod)):
                reference = ModelName.parse(target.expected.name).reference
                await self._runtime.warm_up(address, reference, target.api_key, timeout_seconds=target.warm_up_seconds)
                memory = self._memories.get(uid_of(pod), ProbeMemory())
                self._memories[uid_of(pod)] = replace(memory, warmed_up_for=_containers_ready_at(pod))
            return await self._runtime.inspect(address, target.api_key)
        except RuntimeCallError as error:
            return error

    def _needs_warm_up(self, pod: JsonObject, gate: _Gate) -> bool:
        return needs_warm_up(
            self._memories.get(uid_of(pod), ProbeMemory()),
            gate_open=gate.is_open,
            gate_changed_at=gate.changed_at,
            containers_ready_at=_containers_ready_at(pod),
        )

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


def _containers_ready_at(pod: JsonObject) -> datetime:
    since = _time(conditions_of(pod).get("ContainersReady", {}).get("lastTransitionTime"))
    return since or datetime.min.replace(tzinfo=UTC)


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None

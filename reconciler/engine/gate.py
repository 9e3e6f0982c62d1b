"""The readiness gate: whether a Pod may receive traffic, decided from what its runtime reports (spec section 6).

Pure: `reconciler.engine.runtime` makes the calls, the controller remembers `ProbeMemory` per Pod and writes the gate.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from api.conditions import Reason
from reconciler.engine.errors import InvalidModelName, RuntimeCallError
from reconciler.engine.names import DEFAULT_HOST, ModelName

TOLERATED_FAILURES: Final = 3
"""Consecutive re-inspections that may teach nothing before an open gate closes."""

_CUDA_DEVICE: Final = re.compile(r"cuda:[0-9]+")
# What may be quoted of a runtime: a verdict is read in Pods and Events, and a hostile runtime could echo the key.
_TOLD_DIGEST: Final = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")
_TOLD_DEVICE: Final = re.compile(r"((?:cpu|cuda|metal|vulkan)(?::[0-9]{1,3})?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """One model in a runtime's memory, as `/api/ps` lists it."""

    name: str
    digest: str
    """Bare hex; empty when the runtime named none."""
    device: str
    pinned: bool
    """Whether it stays in memory without an end."""
    precision: str | None = None
    """For people only; never judged."""


Inspection = tuple[LoadedModel, ...] | RuntimeCallError
"""What one call of `/api/ps` brought: the loaded models, or why it taught nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedModel:
    """What a Pod of a revision must serve."""

    name: str
    digest: str
    device: str
    default_host: str = DEFAULT_HOST
    """Host of the registry that names without a host belong to."""


class GateReason(StrEnum):
    """The reasons of the gate `decisionmodel.io/model-ready`, out of all reasons of the API."""

    MODEL_READY = Reason.MODEL_READY
    PROBE_ERROR = Reason.PROBE_ERROR
    DIGEST_MISMATCH = Reason.DIGEST_MISMATCH
    DEVICE_MISMATCH = Reason.DEVICE_MISMATCH
    NOT_PINNED = Reason.NOT_PINNED


@dataclass(frozen=True, slots=True, kw_only=True)
class GateVerdict:
    """What the gate should say."""

    reason: GateReason
    message: str
    precision: str | None = None

    @property
    def ready(self) -> bool:
        """The gate's status."""
        return self.reason is GateReason.MODEL_READY


def judge(inspection: Inspection, expected: ExpectedModel) -> GateVerdict:
    """Decide the gate, in the order of spec section 6.3.

    A runtime may list one name twice after its manifest was replaced; then every entry has to pass.
    """
    if isinstance(inspection, RuntimeCallError):
        return GateVerdict(reason=GateReason.PROBE_ERROR, message=str(inspection))
    entries = _entries_of(expected, inspection)
    if not entries:
        return GateVerdict(reason=GateReason.PROBE_ERROR, message=f"the runtime has not loaded {expected.name}")
    verdicts = [_judge_entry(entry, expected) for entry in entries]
    return next((verdict for verdict in verdicts if not verdict.ready), verdicts[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeMemory:
    """What is remembered about one Pod between probes. Losing it costs one inspection, never a wrong gate."""

    warmed_up_for: dt.datetime | None = None
    """When the containers became ready whose memory holds the model, by the clock of their node."""
    failures: int = 0
    """Consecutive re-inspections of an open gate that taught nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinspection:
    """The outcome of one inspection."""

    memory: ProbeMemory
    verdict: GateVerdict | None
    """None leaves the gate as it is."""


def after_inspection(
    memory: ProbeMemory, inspection: Inspection, expected: ExpectedModel, *, gate_open: bool
) -> Reinspection:
    """Decide what an inspection changes (spec section 6.4).

    An open gate survives `TOLERATED_FAILURES` rounds that teach nothing, as they occur while a key is rotated. A
    model that is gone closes it at once, and has to be loaded again. So has one that is not pinned, since any client's
    `keep_alive` replaces the pin and only another load sets it again.
    """
    verdict = judge(inspection, expected)
    if isinstance(inspection, RuntimeCallError):
        failures = memory.failures + 1
        if gate_open and failures <= TOLERATED_FAILURES:
            return Reinspection(memory=replace(memory, failures=failures), verdict=None)
        return Reinspection(memory=ProbeMemory(), verdict=verdict)
    warm = bool(_entries_of(expected, inspection)) and verdict.reason is not GateReason.NOT_PINNED
    return Reinspection(memory=replace(memory, failures=0) if warm else ProbeMemory(), verdict=verdict)


def needs_warm_up(memory: ProbeMemory, *, gate_open: bool, containers_ready_at: dt.datetime) -> bool:
    """Whether the next probe has to load the model first: its containers were not yet warmed up since they started.

    Only stamps of the Pod's own node are compared, and only for being the same: its clock may differ from everybody
    else's, and may be set back. Of an open gate about which nothing is remembered the next inspection tells.
    """
    if memory.warmed_up_for is None:
        return not gate_open
    return containers_ready_at != memory.warmed_up_for


def _entries_of(expected: ExpectedModel, models: tuple[LoadedModel, ...]) -> list[LoadedModel]:
    wanted = _canonical(expected.name, expected.default_host)
    return [model for model in models if _canonical(model.name, expected.default_host) == wanted]


def _canonical(name: str, default_host: str) -> str:
    """The canonical name, or the text itself where it is none: it then equals only itself."""
    try:
        return ModelName.parse(name).canonical(default_host)
    except InvalidModelName:
        return name


def _judge_entry(entry: LoadedModel, expected: ExpectedModel) -> GateVerdict:
    device = "cuda" if _CUDA_DEVICE.fullmatch(entry.device) else entry.device
    if entry.digest != expected.digest:
        reason = GateReason.DIGEST_MISMATCH
        message = _mismatch("digest", _TOLD_DIGEST, entry.digest, expected.digest[:12])
    elif device != expected.device:
        reason = GateReason.DEVICE_MISMATCH
        message = _mismatch("device", _TOLD_DEVICE, entry.device, expected.device)
    elif not entry.pinned:
        reason, message = GateReason.NOT_PINNED, f"{expected.name} is loaded, but not pinned in memory"
    else:
        reason, message = GateReason.MODEL_READY, f"{expected.name} is loaded, verified and pinned"
    return GateVerdict(reason=reason, message=message, precision=entry.precision)


def _mismatch(what: str, told: re.Pattern[str], found: str, expected: str) -> str:
    known = told.fullmatch(found)
    other = f"something else as {what}" if found else f"no {what}"
    return f"the runtime reports {f'{what} {known[1]}' if known else other}, expected {expected}"

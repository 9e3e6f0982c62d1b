"""The engine's event stream, reduced to what an outcome needs.

Events arrive as JSON texts of the engine's `apitype.EngineEvent`. They are data of another program: an event that
does not parse is counted and left out, and an unknown kind or operation is no error. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

MAX_DIAGNOSTICS = 100
"""Error diagnostics kept of one operation: a broken program could send without end."""

_QUIET_OPERATIONS = frozenset({"same", "refresh", "read"})
_LOUD_SEVERITIES = frozenset({"warning", "error"})


class Diagnostic(msgspec.Struct, frozen=True):
    """A warning or an error the engine or a provider reported."""

    severity: str
    message: str
    urn: str = ""


class PolicyViolation(msgspec.Struct, frozen=True, rename="camel"):
    """A policy's complaint about a resource."""

    message: str = ""
    policy_name: str = ""
    enforcement_level: str = ""
    resource_urn: str = ""


class Step(msgspec.Struct, frozen=True):
    """Something the engine did to one resource; `paths` are the changed properties, sorted."""

    urn: str
    type: str
    op: str
    paths: tuple[str, ...] = ()


class EngineReport(msgspec.Struct, frozen=True):
    """What the event stream of one CLI process said.

    Attributes:
        changes: Number of resources by operation, from the summary.
        steps: What was done, in order of first appearance; unchanged resources are left out.
        failed: URNs of the steps that failed.
        diagnostics: Warnings and errors, at most `MAX_DIAGNOSTICS`.
        violations: Policy violations.
        unreadable: Number of events that did not parse.
    """

    changes: dict[str, int] = {}
    steps: tuple[Step, ...] = ()
    failed: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    violations: tuple[PolicyViolation, ...] = ()
    unreadable: int = 0


class _Metadata(msgspec.Struct, rename="camel"):
    op: str
    urn: str
    type: str
    diffs: list[str] | None = None
    detailed_diff: dict[str, msgspec.Raw] | None = None


class _StepEvent(msgspec.Struct):
    metadata: _Metadata


class _DiagnosticEvent(msgspec.Struct):
    severity: str
    message: str = ""
    urn: str = ""


class _ErrorEvent(msgspec.Struct):
    error: str = ""


class _SummaryEvent(msgspec.Struct, rename="camel"):
    resource_changes: dict[str, int] | None = None


class _Event(msgspec.Struct, rename="camel"):
    diagnostic_event: _DiagnosticEvent | None = None
    error_event: _ErrorEvent | None = None
    resource_pre_event: _StepEvent | None = None
    res_outputs_event: _StepEvent | None = None
    res_op_failed_event: _StepEvent | None = None
    policy_event: PolicyViolation | None = None
    summary_event: _SummaryEvent | None = None


_DECODER = msgspec.json.Decoder(_Event)


class EventCollector:
    """Folds events into a report. Not thread-safe: one stream, one collector."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, str], Step] = {}
        self._failed: dict[str, None] = {}
        self._diagnostics: list[Diagnostic] = []
        self._violations: list[PolicyViolation] = []
        self._changes: dict[str, int] = {}
        self._unreadable = 0

    def add(self, event: str | bytes) -> None:
        """Take one event, as the engine sent it."""
        try:
            parsed = _DECODER.decode(event)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._unreadable += 1
            return
        self._add_step(parsed)
        self._add_message(parsed)
        if parsed.summary_event is not None:
            self._changes = parsed.summary_event.resource_changes or {}

    def _add_step(self, event: _Event) -> None:
        step = event.resource_pre_event or event.res_outputs_event or event.res_op_failed_event
        if step is None:
            return
        metadata = step.metadata
        if event.res_op_failed_event is not None:
            self._failed[metadata.urn] = None
        if metadata.op in _QUIET_OPERATIONS:
            return
        key = (metadata.urn, metadata.op)
        known = self._steps[key].paths if key in self._steps else ()
        paths = {*known, *(metadata.detailed_diff or metadata.diffs or ())}
        self._steps[key] = Step(metadata.urn, metadata.type, metadata.op, tuple(sorted(paths)))

    def _add_message(self, event: _Event) -> None:
        if event.policy_event is not None and len(self._violations) < MAX_DIAGNOSTICS:
            self._violations.append(event.policy_event)
        for diagnostic in _diagnostics(event):
            if len(self._diagnostics) < MAX_DIAGNOSTICS:
                self._diagnostics.append(diagnostic)

    def report(self) -> EngineReport:
        """What was seen so far."""
        return EngineReport(
            changes=self._changes,
            steps=tuple(self._steps.values()),
            failed=tuple(self._failed),
            diagnostics=tuple(self._diagnostics),
            violations=tuple(self._violations),
            unreadable=self._unreadable,
        )


def _diagnostics(event: _Event) -> Iterable[Diagnostic]:
    if event.diagnostic_event is not None and event.diagnostic_event.severity in _LOUD_SEVERITIES:
        found = event.diagnostic_event
        yield Diagnostic(found.severity, found.message, found.urn)
    if event.error_event is not None:
        yield Diagnostic("error", event.error_event.error)

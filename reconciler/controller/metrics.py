"""The metrics of spec section 10.1, and the engine's own operations.

No label carries a revision hash, so their number is bounded: series of a DecisionModel are removed with it, and change
only after a status write that the API server accepted.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from api.conditions import Phase
from api.decisionmodel import DecisionModel
from api.status import DecisionModelStatus, RevisionStatus
from reconciler.controller.probing import PROBE_RESULTS
from reconciler.driver import Outcome
from reconciler.kernel.resources import ObjectKey
from reconciler.rollout import RolloutResult

_MODEL = ("namespace", "name")
_PHASE_BUCKETS = (5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600)


class ControllerMetrics:
    """Counts and describes what the controller does."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._phase = Gauge("decisionmodel_phase", "1 for the current phase.", (*_MODEL, "phase"), registry=registry)
        self._ready = Gauge(
            "decisionmodel_model_ready_replicas", "Pods that are model-ready.", _MODEL, registry=registry
        )
        self._desired = Gauge("decisionmodel_desired_replicas", "Pods that should be.", _MODEL, registry=registry)
        self._rollouts = Counter(
            "decisionmodel_rollouts", "Ended rollouts by result.", (*_MODEL, "result"), registry=registry
        )
        self._phase_seconds = Histogram(
            "decisionmodel_phase_duration_seconds",
            "Seconds spent in a phase, observed when it is left.",
            (*_MODEL, "phase"),
            buckets=_PHASE_BUCKETS,
            registry=registry,
        )
        self._probes = Counter(
            "decisionmodel_probe_results", "Gate transitions by result.", (*_MODEL, "result"), registry=registry
        )
        self._accuracy = Gauge(
            "decisionmodel_evaluation_accuracy", "Accuracy in the last evaluation.", _MODEL, registry=registry
        )
        self._ece = Gauge(
            "decisionmodel_evaluation_ece", "Calibration error in the last evaluation.", _MODEL, registry=registry
        )
        self._macro_f1 = Gauge(
            "decisionmodel_evaluation_macro_f1", "Macro-F1 in the last evaluation.", _MODEL, registry=registry
        )
        self._resolve_seconds = Histogram(
            "decisionmodel_registry_resolve_duration_seconds", "Seconds of registry calls.", registry=registry
        )
        self._revision = Gauge(
            "decisionmodel_revision_info",
            "1 for the revisions in use.",
            (*_MODEL, "role", "model", "digest"),
            registry=registry,
        )
        self._operations = Counter(
            "decisionmodel_stack_operations",
            "Pulumi operations by kind and result.",
            ("kind", "result"),
            registry=registry,
        )
        self._operation_seconds = Histogram(
            "decisionmodel_stack_operation_duration_seconds",
            "Seconds of Pulumi operations.",
            ("kind",),
            registry=registry,
        )
        self._revisions: dict[ObjectKey, set[tuple[str, str, str]]] = {}

    def persisted(self, model: DecisionModel, status: DecisionModelStatus, results: tuple[RolloutResult, ...]) -> None:
        """Follow a status that the API server accepted; `model` still carries the one before."""
        labels = (model.metadata.namespace, model.metadata.name)
        before = model.status
        if (
            before.phase
            and before.phase_transition_time
            and status.phase_transition_time != before.phase_transition_time
        ):
            since = status.phase_transition_time or before.phase_transition_time
            seconds = (since - before.phase_transition_time).total_seconds()
            self._phase_seconds.labels(*labels, before.phase).observe(seconds)
        for result in results:
            self._rollouts.labels(*labels, result).inc()
        self.describe(ObjectKey(*labels), status)

    def describe(self, key: ObjectKey, status: DecisionModelStatus) -> None:
        """Set the gauges from a persisted status."""
        for phase in Phase:
            self._phase.labels(*key, phase).set(phase is status.phase)
        # From 0 on: of a series that begins with 1, no query sees the first increase.
        for result in RolloutResult:
            self._rollouts.labels(*key, result)
        for probe in PROBE_RESULTS.values():
            self._probes.labels(*key, probe)
        if status.replicas is not None:
            self._ready.labels(*key).set(status.replicas.model_ready)
            self._desired.labels(*key).set(status.replicas.desired)
        self._describe_evaluation(key, status)
        self._describe_revisions(key, status)

    def forget(self, key: ObjectKey) -> None:
        """Remove the series of a deleted DecisionModel."""
        labels = {"namespace": key.namespace, "name": key.name}
        rollout = (self._phase, self._ready, self._desired, self._rollouts, self._phase_seconds, self._probes)
        for metric in (*rollout, self._accuracy, self._ece, self._macro_f1):
            metric.remove_by_labels(labels)
        self._revision.remove_by_labels(labels)
        self._revisions.pop(key, None)

    def probed(self, key: ObjectKey, result: str) -> None:
        """Count a gate transition."""
        self._probes.labels(*key, result).inc()

    def resolved(self, seconds: float) -> None:
        """Observe a call to a registry."""
        self._resolve_seconds.observe(seconds)

    def operated(self, outcome: Outcome) -> None:
        """Count a Pulumi operation."""
        result = "succeeded" if outcome.failure is None else str(outcome.failure.reason)
        self._operations.labels(outcome.kind, result).inc()
        self._operation_seconds.labels(outcome.kind).observe(outcome.seconds)

    def _describe_evaluation(self, key: ObjectKey, status: DecisionModelStatus) -> None:
        """Show the last evaluation; there is no series before the first one has ended."""
        evaluation = status.evaluation
        if evaluation is None:
            return
        figures = (
            (self._accuracy, evaluation.accuracy),
            (self._ece, evaluation.ece),
            (self._macro_f1, evaluation.macro_f1),
        )
        for gauge, figure in figures:
            if figure:
                gauge.labels(*key).set(float(figure))
            else:
                gauge.remove_by_labels({"namespace": key.namespace, "name": key.name})

    def _describe_revisions(self, key: ObjectKey, status: DecisionModelStatus) -> None:
        roles = {"stable": status.stable_revision, "candidate": status.candidate_revision}
        current = {_series(role, revision) for role, revision in roles.items() if revision is not None}
        for series in self._revisions.get(key, set()) - current:
            self._revision.remove(*key, *series)
        for series in current:
            self._revision.labels(*key, *series).set(1)
        self._revisions[key] = current


def _series(role: str, revision: RevisionStatus) -> tuple[str, str, str]:
    return role, revision.model, revision.digest

"""The alerts of spec section 10.2, and one about the engine, as a PrometheusRule (monitoring.coreos.com/v1)."""

from __future__ import annotations

from typing import Any

from api.conditions import Phase
from components.configuration import AlertThresholds, PrometheusRule
from components.desired import JsonObject
from components.platform.metadata import LABELS, NAME, SYSTEM_NAMESPACE, metadata

_CONTROLLER = '{controller="decisionmodel"}'
_MOVING = (Phase.RESOLVING, Phase.CACHING, Phase.STARTING, Phase.EVALUATING, Phase.PROMOTING)
_FAILURES = "rolled_back|rolled_back_after_promotion|failed"
_MISMATCHES = "digest_mismatch|device_mismatch"
# Stopped from outside is no failure: a reconciler that ends stops what it has under way.
_NO_FAILURES = "succeeded|Interrupted"
_MODEL = "{{ $labels.namespace }}/{{ $labels.name }}"


def prometheus_rule(rule: PrometheusRule) -> JsonObject:
    """Return the PrometheusRule with every alert."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata(f"{NAME}-alerts", rule.namespace or SYSTEM_NAMESPACE, {**LABELS, **rule.labels}),
        "spec": {"groups": [{"name": NAME, "rules": _alerts(rule)}]},
    }


def _alerts(rule: PrometheusRule) -> list[dict[str, Any]]:
    windows = rule.windows

    def alert(name: str, expression: str, lasting: str, summary: str, severity: str = "warning") -> dict[str, Any]:
        full_name = f"DecisionModel{name}"
        runbook = {"runbook_url": f"{rule.runbook_url.rstrip('/')}/{full_name}.md"} if rule.runbook_url else {}
        return {
            "alert": full_name,
            "expr": expression,
            "for": lasting,
            "labels": {"severity": severity},
            "annotations": {"summary": summary, **runbook},
        }

    return [
        alert("RolloutStuck", _in_phase(*_MOVING), windows.rollout_stuck, f"A rollout of {_MODEL} does not end."),
        alert(
            "CandidateTimeout",
            _in_phase(Phase.STARTING, Phase.EVALUATING),
            windows.candidate_timeout,
            f"A candidate of {_MODEL} is neither promoted nor rejected.",
        ),
        alert(
            "RolloutQueuedLong", _in_phase(Phase.PENDING), windows.rollout_queued, f"{_MODEL} waits for its rollout."
        ),
        alert(
            "RolloutFailures",
            f'sum by (namespace, name) (increase(decisionmodel_rollouts_total{{result=~"{_FAILURES}"}}[15m])) > 0',
            "5m",
            f"A rollout of {_MODEL} failed.",
        ),
        alert("EvaluationPoor", _poor(rule.thresholds), "10m", f"{_MODEL} scored worse than agreed."),
        alert("Degraded", _in_phase(Phase.DEGRADED), windows.degraded, f"{_MODEL} serves on too few Pods, or none."),
        alert(
            "ModelMismatch",
            f'sum by (namespace, name) (rate(decisionmodel_probe_results_total{{result=~"{_MISMATCHES}"}}[15m])) > 0',
            "10m",
            f"Pods of {_MODEL} load another model, or on another device, than they should.",
        ),
        alert(
            "StackOperationsFailing",
            f'sum by (result) (rate(decisionmodel_stack_operations_total{{result!~"{_NO_FAILURES}"}}[15m])) > 0',
            "15m",
            "Operations of the engine keep failing: {{ $labels.result }}.",
        ),
        alert(
            "OperatorReconcileErrors",
            f"rate(controller_runtime_reconcile_errors_total{_CONTROLLER}[5m]) > 0",
            "10m",
            "The reconciler keeps failing; its log says why.",
        ),
        alert(
            "OperatorDown",
            f"absent(controller_runtime_reconcile_total{_CONTROLLER})",
            windows.operator_down,
            "No reconciler reports metrics: models serve on, but nothing looks after them.",
            "critical",
        ),
    ]


def _in_phase(*phases: Phase) -> str:
    # Taken together: a rollout that goes from one of them to the next is in the same window still.
    return f'max by (namespace, name) (decisionmodel_phase{{phase=~"{"|".join(phases)}"}}) == 1'


def _poor(thresholds: AlertThresholds) -> str:
    return (
        f"decisionmodel_evaluation_accuracy < {thresholds.min_accuracy:g}"
        f" or decisionmodel_evaluation_macro_f1 < {thresholds.min_macro_f1:g}"
        f" or decisionmodel_evaluation_ece > {thresholds.max_ece:g}"
    )

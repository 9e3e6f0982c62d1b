"""The Grafana dashboard of spec section 10.3, as a ConfigMap that Grafana's sidecar picks up by its labels."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from components.configuration import GrafanaDashboard
from components.desired import JsonObject
from components.platform.metadata import LABELS, NAME, SYSTEM_NAMESPACE, metadata

DASHBOARD_UID: Final = NAME
_FOLDER_ANNOTATION = "grafana_folder"
_SELECTED = 'namespace=~"$namespace"'
_CONTROLLER = 'controller="decisionmodel"'
_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 2
_DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class _Panel:
    """One panel: its title, its queries by legend, its unit and its kind."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"


def _quantile(share: float, metric: str, by: str = "", selector: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share:g}, sum by ({labels}) (rate({metric}_bucket{{{selector}}}[5m])))"


def _per_model(metric: str, by: str = "namespace, name") -> str:
    return f"max by ({by}) ({metric}{{{_SELECTED}}})"


def _increase(metric: str, result: str) -> str:
    selector = f'{_SELECTED}, result=~"{result}"'
    return f"sum by (namespace, name, result) (increase({metric}{{{selector}}}[$__rate_interval]))"


_MODEL = "{{namespace}}/{{name}}"
_PANELS: Final = (
    _Panel("Phase", ((f"{_MODEL} {{{{phase}}}}", f"decisionmodel_phase{{{_SELECTED}}} == 1"),), kind="stat"),
    _Panel(
        "Ready and desired replicas",
        (
            (f"{_MODEL} ready", _per_model("decisionmodel_model_ready_replicas")),
            (f"{_MODEL} desired", _per_model("decisionmodel_desired_replicas")),
        ),
    ),
    _Panel("Rollout outcomes", ((f"{_MODEL} {{{{result}}}}", _increase("decisionmodel_rollouts_total", ".+")),)),
    _Panel(
        "Recreate: stable stopped and restored",
        (
            (
                f"{_MODEL} {{{{result}}}}",
                _increase("decisionmodel_rollouts_total", "stable_stopped|stable_restored"),
            ),
        ),
    ),
    _Panel("Queued rollouts", (("queued", f'sum(decisionmodel_phase{{{_SELECTED}, phase="Pending"}})'),)),
    _Panel("Probe results", ((f"{_MODEL} {{{{result}}}}", _increase("decisionmodel_probe_results_total", ".+")),)),
    _Panel("Expected calibration error", ((_MODEL, _per_model("decisionmodel_evaluation_ece")),), "percentunit"),
    _Panel("Accuracy", ((_MODEL, _per_model("decisionmodel_evaluation_accuracy")),), "percentunit"),
    _Panel("Macro F1", ((_MODEL, _per_model("decisionmodel_evaluation_macro_f1")),), "percentunit"),
    _Panel(
        "Reconcile errors",
        (("errors", f"sum(rate(controller_runtime_reconcile_errors_total{{{_CONTROLLER}}}[5m]))"),),
        "ops",
    ),
    _Panel(
        "Reconcile time, p99",
        (("p99", _quantile(0.99, "controller_runtime_reconcile_time_seconds", selector=_CONTROLLER)),),
        "s",
    ),
    _Panel("Work queue depth", (("depth", 'sum(workqueue_depth{name="decisionmodel"})'),)),
    _Panel("Registry calls, p99", (("p99", _quantile(0.99, "decisionmodel_registry_resolve_duration_seconds")),), "s"),
    _Panel(
        "Time in a phase, p90",
        (("{{phase}}", _quantile(0.9, "decisionmodel_phase_duration_seconds", "phase", _SELECTED)),),
        "s",
    ),
)


def dashboard_config_map(dashboard: GrafanaDashboard) -> JsonObject:
    """Return the ConfigMap with the dashboard."""
    annotations = {_FOLDER_ANNOTATION: dashboard.folder} if dashboard.folder else None
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(
            f"{NAME}-dashboard",
            dashboard.namespace or SYSTEM_NAMESPACE,
            {**LABELS, **dashboard.labels},
            annotations,
        ),
        "data": {f"{NAME}.json": json.dumps(_dashboard(), indent=1, sort_keys=True)},
    }


def _dashboard() -> dict[str, Any]:
    return {
        "uid": DASHBOARD_UID,
        "title": DASHBOARD_UID,
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_data_source_variable(), _namespace_variable()]},
        "panels": [*_placed(_PANELS)],
    }


def _data_source_variable() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}


def _namespace_variable() -> dict[str, Any]:
    return {
        "name": "namespace",
        "type": "query",
        "label": "Namespace",
        "datasource": _DATA_SOURCE,
        "query": "label_values(decisionmodel_phase, namespace)",
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _placed(panels: Iterable[_Panel]) -> Iterable[dict[str, Any]]:
    for number, panel in enumerate(panels):
        row, column = divmod(number, _COLUMNS)
        yield {
            "id": number + 1,
            "title": panel.title,
            "type": panel.kind,
            "datasource": _DATA_SOURCE,
            "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
            "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
            "targets": [
                {"refId": chr(ord("A") + place), "expr": expression, "legendFormat": legend, "datasource": _DATA_SOURCE}
                for place, (legend, expression) in enumerate(panel.queries)
            ],
        }

"""Alerts, the dashboard, scraping and network policies say what the specification says, over metrics that exist."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from api.conditions import Phase
from reconciler.controller.metrics import ControllerMetrics
from reconciler.driver.operation import Failure, FailureReason, OperationKind, Outcome
from reconciler.kernel.metrics import QueueMetrics, ReconcileMetrics
from reconciler.kernel.queue import WorkQueue
from tests.components.platforms import SYSTEM, one, rendered

# Named by the specification, and absent until a first evaluation has ended.
OF_EVALUATIONS = {
    "decisionmodel_evaluation_accuracy",
    "decisionmodel_evaluation_macro_f1",
    "decisionmodel_evaluation_ece",
}
RUNBOOKS = "https://runbooks.example/decisionmodel"


def alerts() -> dict[str, dict[str, Any]]:
    rule = one("PrometheusRule", prometheusRule={"enabled": True, "runbookUrl": f"{RUNBOOKS}/"})
    (group,) = rule["spec"]["groups"]
    assert group["name"] == "decision-model-operator"
    return {alert["alert"].removeprefix("DecisionModel"): alert for alert in group["rules"]}


def dashboard() -> dict[str, Any]:
    config_map = one("ConfigMap", grafanaDashboard={"enabled": True})
    (text,) = config_map["data"].values()
    parsed: dict[str, Any] = json.loads(text)
    return parsed


@pytest.mark.parametrize(
    ("name", "expression", "lasting", "severity"),
    [
        (
            "RolloutStuck",
            (
                "max by (namespace, name)"
                ' (decisionmodel_phase{phase=~"Resolving|Caching|Starting|Evaluating|Promoting"}) == 1'
            ),
            "15m",
            "warning",
        ),
        (
            "CandidateTimeout",
            'max by (namespace, name) (decisionmodel_phase{phase=~"Starting|Evaluating"}) == 1',
            "20m",
            "warning",
        ),
        (
            "RolloutQueuedLong",
            'max by (namespace, name) (decisionmodel_phase{phase=~"Pending"}) == 1',
            "30m",
            "warning",
        ),
        (
            "RolloutFailures",
            (
                "sum by (namespace, name) (increase("
                'decisionmodel_rollouts_total{result=~"rolled_back|rolled_back_after_promotion|failed"}[15m])) > 0'
            ),
            "5m",
            "warning",
        ),
        (
            "EvaluationPoor",
            (
                "decisionmodel_evaluation_accuracy < 0.8 or decisionmodel_evaluation_macro_f1 < 0.7"
                " or decisionmodel_evaluation_ece > 0.15"
            ),
            "10m",
            "warning",
        ),
        ("Degraded", 'max by (namespace, name) (decisionmodel_phase{phase=~"Degraded"}) == 1', "10m", "warning"),
        (
            "ModelMismatch",
            (
                "sum by (namespace, name) (rate("
                'decisionmodel_probe_results_total{result=~"digest_mismatch|device_mismatch"}[15m])) > 0'
            ),
            "10m",
            "warning",
        ),
        (
            "StackOperationsFailing",
            ('sum by (result) (rate(decisionmodel_stack_operations_total{result!~"succeeded|Interrupted"}[15m])) > 0'),
            "15m",
            "warning",
        ),
        (
            "OperatorReconcileErrors",
            'rate(controller_runtime_reconcile_errors_total{controller="decisionmodel"}[5m]) > 0',
            "10m",
            "warning",
        ),
        (
            "OperatorDown",
            'absent(controller_runtime_reconcile_total{controller="decisionmodel"})',
            "5m",
            "critical",
        ),
    ],
)
def test_an_alert(name: str, expression: str, lasting: str, severity: str) -> None:
    alert = alerts()[name]

    assert alert["expr"] == expression
    assert alert["for"] == lasting
    assert alert["labels"] == {"severity": severity}
    assert alert["annotations"]["runbook_url"] == f"{RUNBOOKS}/DecisionModel{name}.md"
    assert alert["annotations"]["summary"].endswith(".")


def test_results_that_are_no_failures_are_named_as_the_reconciler_counts_them() -> None:
    registry = CollectorRegistry()
    metrics = ControllerMetrics(registry)
    stopped = Failure(reason=FailureReason.INTERRUPTED, message="a signal")
    for failure in (None, stopped):
        metrics.operated(Outcome(stack="a.b.c", kind=OperationKind.UP, failure=failure, seconds=1.0))
    counted = {
        sample.labels["result"]
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "decisionmodel_stack_operations_total"
    }
    (unheeded,) = re.findall(r'result!~"([^"]*)"', alerts()["StackOperationsFailing"]["expr"])
    assert set(unheeded.split("|")) == counted


def test_there_are_no_other_alerts_and_no_runbooks_without_a_place() -> None:
    assert len(alerts()) == 10
    rule = one("PrometheusRule", prometheusRule={"enabled": True})
    assert all("runbook_url" not in alert["annotations"] for alert in rule["spec"]["groups"][0]["rules"])


def test_phases_that_wait_for_a_person_or_are_over_raise_no_alert() -> None:
    alerted = "".join(alert["expr"] for alert in alerts().values() if "decisionmodel_phase" in alert["expr"])

    assert {phase for phase in Phase if phase not in alerted} == {
        Phase.AWAITING_PROMOTION,
        Phase.READY,
        Phase.FAILED,
        Phase.ROLLED_BACK,
    }


def test_the_dashboard_has_its_fourteen_panels() -> None:
    shown = dashboard()

    assert (shown["uid"], shown["title"]) == ("decision-model-operator", "decision-model-operator")
    assert [panel["title"] for panel in shown["panels"]] == [
        "Phase",
        "Ready and desired replicas",
        "Rollout outcomes",
        "Recreate: stable stopped and restored",
        "Queued rollouts",
        "Probe results",
        "Expected calibration error",
        "Accuracy",
        "Macro F1",
        "Reconcile errors",
        "Reconcile time, p99",
        "Work queue depth",
        "Registry calls, p99",
        "Time in a phase, p90",
    ]
    assert shown["panels"][0]["type"] == "stat"


def test_panels_do_not_cover_each_other() -> None:
    cells = [
        (column, row)
        for panel in dashboard()["panels"]
        for column in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for row in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(column for column, _ in cells) < 24


def exported() -> set[str]:
    """The names of every series that the reconciler exports."""
    registry = CollectorRegistry()
    ControllerMetrics(registry)
    ReconcileMetrics(registry, "decisionmodel")
    queue_metrics = QueueMetrics(registry, "decisionmodel")
    queue_metrics.bind(WorkQueue())
    suffixes = {"counter": ("_total",), "histogram": ("_bucket",)}
    return {
        f"{family.name}{suffix}" for family in registry.collect() for suffix in suffixes.get(family.type, ("",))
    } | OF_EVALUATIONS


def test_every_expression_is_over_metrics_that_exist() -> None:
    expressions = [alert["expr"] for alert in alerts().values()]
    expressions += [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    named = set(re.findall(r"\b((?:decisionmodel|controller_runtime|workqueue)_[a-z0-9_]+)", "\n".join(expressions)))

    assert named - exported() == set()
    assert len(named) > 10


def test_brackets_of_every_expression_match() -> None:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            for opening, closing in ("()", "{}", "[]"):
                assert target["expr"].count(opening) == target["expr"].count(closing)


def test_the_service_monitor_finds_the_service() -> None:
    configuration: dict[str, Any] = {"metrics": {"serviceMonitor": {"enabled": True, "namespace": "monitoring"}}}
    monitor, service = one("ServiceMonitor", **configuration), one("Service", **configuration)
    (endpoint,) = monitor["spec"]["endpoints"]
    (port,) = service["spec"]["ports"]

    assert monitor["spec"]["namespaceSelector"] == {"matchNames": [service["metadata"]["namespace"]]}
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert endpoint["port"] == port["name"]
    assert endpoint["scheme"] == "https"
    assert endpoint["honorLabels"] is True, "the namespace in a series is the model's"
    assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}


@pytest.mark.parametrize("namespace", [None, "monitoring"])
def test_who_cannot_prove_to_be_the_reconciler_gets_no_token_worth_having(namespace: str | None) -> None:
    monitor: dict[str, Any] = {"serviceMonitor": {"enabled": True, **({"namespace": namespace} if namespace else {})}}
    (endpoint,) = one("ServiceMonitor", metrics=monitor)["spec"]["endpoints"]
    scraper = "decision-model-operator-metrics-scraper"
    made = {each["kind"]: each for each in rendered(metrics=monitor) if each["metadata"]["name"] == scraper}

    assert "bearerTokenFile" not in endpoint
    assert endpoint["authorization"] == {"type": "Bearer", "credentials": {"name": scraper, "key": "token"}}
    home = namespace or SYSTEM
    assert [made[kind]["metadata"]["namespace"] for kind in ("ServiceAccount", "Secret")] == [home, home]
    assert made["Secret"]["metadata"]["annotations"] == {"kubernetes.io/service-account.name": scraper}
    assert made["ClusterRoleBinding"]["roleRef"]["name"] == "decision-model-operator-metrics-reader"
    assert made["ClusterRoleBinding"]["subjects"] == [{"kind": "ServiceAccount", "name": scraper, "namespace": home}]


def test_prometheus_own_token_goes_to_a_verified_reconciler_alone() -> None:
    metrics = {"certificateSecret": "tls", "serviceMonitor": {"enabled": True, "tlsVerify": True}}
    (endpoint,) = one("ServiceMonitor", metrics=metrics)["spec"]["endpoints"]

    assert endpoint["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    assert endpoint["tlsConfig"] == {"insecureSkipVerify": False}
    assert not any(each["metadata"]["name"].endswith("-scraper") for each in rendered(metrics=metrics))


def test_plain_metrics_are_scraped_without_a_token() -> None:
    monitor = one("ServiceMonitor", metrics={"secure": False, "serviceMonitor": {"enabled": True}})

    assert monitor["spec"]["endpoints"] == [
        {"port": "metrics", "path": "/metrics", "honorLabels": True, "scheme": "http"}
    ]


def test_only_what_the_reconciler_serves_can_be_reached() -> None:
    def ports(**configuration: Any) -> list[int]:
        spec = one("NetworkPolicy", **configuration)["spec"]
        assert spec["policyTypes"] == ["Ingress"], "where it may go stays open"
        ((rule,), pod) = spec["ingress"], one("Deployment")["spec"]["template"]
        assert spec["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        return [port["port"] for port in rule["ports"]]

    assert ports() == [8081, 8443]
    assert ports(metrics={"bindAddress": ":9443"}) == [8081, 9443]
    assert ports(metrics={"enabled": False}) == [8081]
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    assert sorted(each["containerPort"] for each in container["ports"]) == ports()


def test_network_policies_are_the_two_of_the_sample() -> None:
    policies = {
        manifest["metadata"]["name"]: manifest["spec"]
        for manifest in rendered(manager={"watchNamespaces": ["models"]}, networkPolicies={"enabled": True})
        if manifest["kind"] == "NetworkPolicy" and manifest["metadata"]["namespace"] == "models"
    }
    models = {"matchExpressions": [{"key": "decisionmodel.io/name", "operator": "Exists"}]}

    assert policies["decision-model-operator-clients"] == {
        "podSelector": models,
        "policyTypes": ["Ingress"],
        "ingress": [
            {
                "from": [
                    {"namespaceSelector": {"matchLabels": {"decisionmodel.io/client": "allowed"}}},
                    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": SYSTEM}}},
                ],
                "ports": [{"protocol": "TCP", "port": 11435}],
            }
        ],
    }
    assert policies["decision-model-operator-egress"] == {
        "podSelector": models,
        "policyTypes": ["Egress"],
        "egress": [
            {
                "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
                "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
            },
            {"ports": [{"protocol": "TCP", "port": 443}]},
        ],
    }

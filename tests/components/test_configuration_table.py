"""Each key of an environment and exactly what it changes in the rendered platform."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

import pytest

from tests.components.flattening import changes
from tests.components.keys import KEYS
from tests.components.platforms import rendered

MONITORED: dict[str, Any] = {"metrics": {"serviceMonitor": {"enabled": True}}}
VERIFIED: dict[str, Any] = {"metrics": {"serviceMonitor": {"enabled": True, "caSecret": {"name": "ca"}}}}
SCRAPER = "decision-model-operator-metrics-scraper"
SCRAPER_HOME = "decision-model-operator-system"
ENDPOINT = "{} ServiceMonitor ~-metrics-monitor spec.endpoints[]"
CERTIFIED: dict[str, Any] = {"metrics": {"certificateSecret": "tls", "serviceMonitor": {"enabled": True}}}
ALERTED: dict[str, Any] = {"prometheusRule": {"enabled": True}}
SHOWN: dict[str, Any] = {"grafanaDashboard": {"enabled": True}}
POLICED: dict[str, Any] = {"networkPolicies": {"enabled": True, "namespaces": ["models"]}}
BUCKET: dict[str, Any] = {"state": {"s3": {"bucket": "states"}}}
RULES_CHECKSUM = "+ Deployment ~-controller-manager spec.template.metadata.annotations.checksum/policy"
RULED: dict[str, Any] = {"policy": {"file": "rules"}}
VOLUME: dict[str, Any] = {"state": {"size": "1Gi"}}


def poor(accuracy: float, macro_f1: float, ece: float) -> str:
    expression = (
        f"decisionmodel_evaluation_accuracy < {accuracy}"
        f" or decisionmodel_evaluation_macro_f1 < {macro_f1}"
        f" or decisionmodel_evaluation_ece > {ece}"
    )
    return f'PrometheusRule ~-alerts [DecisionModelEvaluationPoor].expr="{expression}"'


# A key, what has to be set for it to mean something, its value, and what comes (+) and goes (-).
TABLE: list[tuple[str, dict[str, Any], Any, list[str]]] = [
    ("image", {}, "reconciler:2", ['+ manager image="reconciler:2"', '- manager image="reconciler:1"']),
    (
        "imagePullPolicy",
        {},
        "Always",
        ['+ manager imagePullPolicy="Always"', '- manager imagePullPolicy="IfNotPresent"'],
    ),
    ("imagePullSecrets", {}, ["registry"], ["+ pod imagePullSecrets[registry]={}"]),
    (
        "replicas",
        {"manager": {"leaderElect": True}},
        2,
        ["+ Deployment ~-controller-manager spec.replicas=2", "- Deployment ~-controller-manager spec.replicas=1"],
    ),
    (
        "resources.requests",
        {},
        {"cpu": "1"},
        [
            '+ manager resources.requests.cpu="1"',
            '- manager resources.requests.cpu="200m"',
            '- manager resources.requests.memory="512Mi"',
        ],
    ),
    (
        "resources.limits",
        {},
        {"memory": "4Gi"},
        ['+ manager resources.limits.memory="4Gi"', '- manager resources.limits.memory="2Gi"'],
    ),
    ("nodeSelector", {}, {"pool": "system"}, ['+ pod nodeSelector.pool="system"']),
    (
        "tolerations",
        {},
        [{"key": "system", "operator": "Exists"}],
        ['+ pod tolerations[].key="system"', '+ pod tolerations[].operator="Exists"'],
    ),
    (
        "affinity",
        {},
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
        ['+ pod affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[].topologyKey="zone"'],
    ),
    (
        "serviceAccount.annotations",
        {},
        {"cloud/role": "states"},
        ['+ ServiceAccount ~-controller-manager metadata.annotations.cloud/role="states"'],
    ),
    (
        "manager.leaderElect",
        {},
        False,
        [
            '+ Deployment ~-controller-manager spec.strategy.type="Recreate"',
            '- Deployment ~-controller-manager spec.strategy.rollingUpdate.maxSurge="25%"',
            '- Deployment ~-controller-manager spec.strategy.rollingUpdate.maxUnavailable="25%"',
            '- Deployment ~-controller-manager spec.strategy.type="RollingUpdate"',
            '- manager args[]="--leader-elect"',
        ],
    ),
    ("manager.allowedRegistries", {}, ["a", "b:5000"], ['+ manager args[]="--allowed-registries=a,b:5000"']),
    ("manager.allowInsecureRegistries", {}, True, ['+ manager args[]="--allow-insecure-registries"']),
    ("manager.allowImageOverride", {}, True, ['+ manager args[]="--allow-image-override"']),
    ("manager.allowUnpinnedRuntimeImages", {}, True, ['+ manager args[]="--allow-unpinned-runtime-images"']),
    ("manager.ollayaRegistry", {}, "https://mirror", ['+ manager args[]="--ollaya-registry=https://mirror"']),
    ("manager.ollayaHfEndpoint", {}, "https://weights", ['+ manager args[]="--ollaya-hf-endpoint=https://weights"']),
    ("manager.maxConcurrentReconciles", {}, 8, ['+ manager args[]="--max-concurrent-reconciles=8"']),
    ("manager.maxConcurrentRollouts", {}, 2, ['+ manager args[]="--max-concurrent-rollouts=2"']),
    (
        "manager.runtimeVersionPolicy",
        {},
        "FollowOperator",
        ['+ manager args[]="--runtime-version-policy=FollowOperator"'],
    ),
    (
        "manager.watchNamespaces",
        {},
        ["one", "two"],
        [
            "+ Role one/~-manager-role",
            "+ Role two/~-manager-role",
            "+ RoleBinding one/~-manager-rolebinding",
            "+ RoleBinding two/~-manager-rolebinding",
            '+ manager args[]="--watch-namespaces=one,two"',
            "- ClusterRole ~-manager-role",
            "- ClusterRoleBinding ~-manager-rolebinding",
        ],
    ),
    (
        "manager.metricsBindAddress",
        {},
        ":8080",
        [
            "+ NetworkPolicy ~-manager spec.ingress[].ports[].port=8080",
            "+ Service ~-controller-manager-metrics-service spec.ports[metrics].port=8080",
            '+ manager args[]="--metrics-bind-address=:8080"',
            '+ manager args[]="--metrics-secure=false"',
            "+ manager ports[metrics].containerPort=8080",
            "- ClusterRole ~-metrics-auth-role",
            "- ClusterRole ~-metrics-reader",
            "- ClusterRoleBinding ~-metrics-auth-rolebinding",
            "- NetworkPolicy ~-manager spec.ingress[].ports[].port=8443",
            "- Service ~-controller-manager-metrics-service spec.ports[metrics].port=8443",
            '- manager args[]="--metrics-bind-address=:8443"',
            "- manager ports[metrics].containerPort=8443",
        ],
    ),
    ("manager.stackWorkers", {}, 4, ['+ manager args[]="--stack-workers=4"', '- manager args[]="--stack-workers=2"']),
    ("manager.stackDeadline", {}, 90, ['+ manager args[]="--stack-deadline=90"']),
    ("manager.zapLogLevel", {}, "debug", ['+ manager args[]="--zap-log-level=debug"']),
    ("manager.zapEncoder", {}, "console", ['+ manager args[]="--zap-encoder=console"']),
    (
        "policy.file",
        {},
        "rules",
        [
            "+ ConfigMap ~-policy",
            f"{RULES_CHECKSUM}={json.dumps(hashlib.sha256(b'rules').hexdigest())}",
            '+ manager args[]="--policy-config=/etc/decisionmodel/policy/policy.yaml"',
            '+ manager args[]="--policy-environment=stack"',
            '+ manager volumeMounts[policy].mountPath="/etc/decisionmodel/policy"',
            "+ manager volumeMounts[policy].readOnly=true",
            '+ pod volumes[policy].configMap.name="decision-model-operator-policy"',
        ],
    ),
    (
        "policy.environment",
        RULED,
        "prod",
        ['+ manager args[]="--policy-environment=prod"', '- manager args[]="--policy-environment=stack"'],
    ),
    ("proxy.httpProxy", {}, "http://proxy:3128", ['+ manager env[HTTP_PROXY].value="http://proxy:3128"']),
    ("proxy.httpsProxy", {}, "http://proxy:3129", ['+ manager env[HTTPS_PROXY].value="http://proxy:3129"']),
    ("proxy.noProxy", {}, "10.96.0.0/12,.svc", ['+ manager env[NO_PROXY].value="10.96.0.0/12,.svc"']),
    (
        "proxy.existingSecret",
        {"proxy": {"httpProxy": "http://proxy:3128"}},
        "proxy",
        [
            '+ manager env[HTTPS_PROXY].valueFrom.secretKeyRef.key="httpsProxy"',
            '+ manager env[HTTPS_PROXY].valueFrom.secretKeyRef.name="proxy"',
            "+ manager env[HTTPS_PROXY].valueFrom.secretKeyRef.optional=true",
            '+ manager env[HTTP_PROXY].valueFrom.secretKeyRef.key="httpProxy"',
            '+ manager env[HTTP_PROXY].valueFrom.secretKeyRef.name="proxy"',
            "+ manager env[HTTP_PROXY].valueFrom.secretKeyRef.optional=true",
            '+ manager env[NO_PROXY].valueFrom.secretKeyRef.key="noProxy"',
            '+ manager env[NO_PROXY].valueFrom.secretKeyRef.name="proxy"',
            "+ manager env[NO_PROXY].valueFrom.secretKeyRef.optional=true",
            '- manager env[HTTP_PROXY].value="http://proxy:3128"',
        ],
    ),
    ("environment", {}, {"TZ": "UTC"}, ['+ manager env[TZ].value="UTC"']),
    (
        "state.size",
        {},
        "1Gi",
        [
            '+ Deployment ~-controller-manager spec.strategy.type="Recreate"',
            "+ PersistentVolumeClaim ~-state",
            '+ pod volumes[state].persistentVolumeClaim.claimName="decision-model-operator-state"',
            '- Deployment ~-controller-manager spec.strategy.rollingUpdate.maxSurge="25%"',
            '- Deployment ~-controller-manager spec.strategy.rollingUpdate.maxUnavailable="25%"',
            '- Deployment ~-controller-manager spec.strategy.type="RollingUpdate"',
            "- pod volumes[state].emptyDir={}",
        ],
    ),
    ("state.storageClassName", VOLUME, "fast", ['+ PersistentVolumeClaim ~-state spec.storageClassName="fast"']),
    (
        "state.s3.bucket",
        {},
        "states",
        [
            '+ manager args[]="--state-backend=s3://states"',
            '- manager args[]="--state-backend=file:///var/lib/decisionmodel/state"',
            '- manager volumeMounts[state].mountPath="/var/lib/decisionmodel/state"',
            "- pod volumes[state].emptyDir={}",
        ],
    ),
    (
        "state.s3.prefix",
        BUCKET,
        "prod/eu",
        ['+ manager args[]="--state-backend=s3://states/prod/eu"', '- manager args[]="--state-backend=s3://states"'],
    ),
    (
        "state.s3.region",
        BUCKET,
        "eu-central-1",
        [
            '+ manager args[]="--state-backend=s3://states?region=eu-central-1"',
            '- manager args[]="--state-backend=s3://states"',
        ],
    ),
    (
        "state.s3.endpoint",
        BUCKET,
        "minio:9000",
        [
            '+ manager args[]="--state-backend=s3://states?endpoint=minio%3A9000"',
            '- manager args[]="--state-backend=s3://states"',
        ],
    ),
    (
        "state.s3.disableTls",
        BUCKET,
        True,
        [
            '+ manager args[]="--state-backend=s3://states?disableSSL=true"',
            '- manager args[]="--state-backend=s3://states"',
        ],
    ),
    (
        "state.s3.forcePathStyle",
        BUCKET,
        True,
        [
            '+ manager args[]="--state-backend=s3://states?s3ForcePathStyle=true"',
            '- manager args[]="--state-backend=s3://states"',
        ],
    ),
    (
        "state.s3.credentialsSecret",
        BUCKET,
        "bucket",
        [
            '+ manager env[DECISIONMODEL_STATE_CREDENTIALS].value="/etc/decisionmodel/state-credentials"',
            '+ manager volumeMounts[state-credentials].mountPath="/etc/decisionmodel/state-credentials"',
            "+ manager volumeMounts[state-credentials].readOnly=true",
            '+ pod volumes[state-credentials].projected.sources[].secret.items[].key="AWS_ACCESS_KEY_ID"',
            '+ pod volumes[state-credentials].projected.sources[].secret.items[].key="AWS_SECRET_ACCESS_KEY"',
            '+ pod volumes[state-credentials].projected.sources[].secret.items[].key="AWS_SESSION_TOKEN"',
            '+ pod volumes[state-credentials].projected.sources[].secret.items[].path="AWS_ACCESS_KEY_ID"',
            '+ pod volumes[state-credentials].projected.sources[].secret.items[].path="AWS_SECRET_ACCESS_KEY"',
            '+ pod volumes[state-credentials].projected.sources[].secret.items[].path="AWS_SESSION_TOKEN"',
            '+ pod volumes[state-credentials].projected.sources[].secret.name="bucket"',
            "+ pod volumes[state-credentials].projected.sources[].secret.optional=true",
        ],
    ),
    (
        "metrics.enabled",
        {},
        False,
        [
            '+ manager args[]="--metrics-bind-address=0"',
            "- ClusterRole ~-metrics-auth-role",
            "- ClusterRole ~-metrics-reader",
            "- ClusterRoleBinding ~-metrics-auth-rolebinding",
            "- NetworkPolicy ~-manager spec.ingress[].ports[].port=8443",
            "- Service ~-controller-manager-metrics-service",
            '- manager args[]="--metrics-bind-address=:8443"',
            "- manager ports[metrics].containerPort=8443",
            '- manager ports[metrics].protocol="TCP"',
        ],
    ),
    (
        "metrics.bindAddress",
        {},
        "127.0.0.1:9443",
        [
            "+ NetworkPolicy ~-manager spec.ingress[].ports[].port=9443",
            "+ Service ~-controller-manager-metrics-service spec.ports[metrics].port=9443",
            '+ manager args[]="--metrics-bind-address=127.0.0.1:9443"',
            "+ manager ports[metrics].containerPort=9443",
            "- NetworkPolicy ~-manager spec.ingress[].ports[].port=8443",
            "- Service ~-controller-manager-metrics-service spec.ports[metrics].port=8443",
            '- manager args[]="--metrics-bind-address=:8443"',
            "- manager ports[metrics].containerPort=8443",
        ],
    ),
    (
        "metrics.secure",
        {},
        False,
        [
            '+ manager args[]="--metrics-secure=false"',
            "- ClusterRole ~-metrics-auth-role",
            "- ClusterRole ~-metrics-reader",
            "- ClusterRoleBinding ~-metrics-auth-rolebinding",
        ],
    ),
    (
        "metrics.certificateSecret",
        {},
        "certificate",
        [
            '+ manager args[]="--metrics-cert-path=/etc/decisionmodel/metrics-certificate"',
            '+ manager volumeMounts[metrics-certificate].mountPath="/etc/decisionmodel/metrics-certificate"',
            "+ manager volumeMounts[metrics-certificate].readOnly=true",
            '+ pod volumes[metrics-certificate].secret.secretName="certificate"',
        ],
    ),
    (
        "metrics.serviceMonitor.enabled",
        {},
        True,
        [
            "+ ClusterRoleBinding ~-metrics-scraper",
            "+ Secret ~-metrics-scraper",
            "+ ServiceAccount ~-metrics-scraper",
            "+ ServiceMonitor ~-metrics-monitor",
        ],
    ),
    (
        "metrics.serviceMonitor.namespace",
        MONITORED,
        "monitoring",
        [
            f'+ ClusterRoleBinding ~-metrics-scraper subjects[{SCRAPER}].namespace="monitoring"',
            "+ Secret monitoring/~-metrics-scraper",
            "+ ServiceAccount monitoring/~-metrics-scraper",
            "+ ServiceMonitor monitoring/~-metrics-monitor",
            f'- ClusterRoleBinding ~-metrics-scraper subjects[{SCRAPER}].namespace="{SCRAPER_HOME}"',
            "- Secret ~-metrics-scraper",
            "- ServiceAccount ~-metrics-scraper",
            "- ServiceMonitor ~-metrics-monitor",
        ],
    ),
    (
        "metrics.serviceMonitor.labels",
        MONITORED,
        {"release": "prometheus"},
        ['+ ServiceMonitor ~-metrics-monitor metadata.labels.release="prometheus"'],
    ),
    (
        "metrics.serviceMonitor.interval",
        MONITORED,
        "30s",
        ['+ ServiceMonitor ~-metrics-monitor spec.endpoints[].interval="30s"'],
    ),
    (
        "metrics.serviceMonitor.scrapeTimeout",
        MONITORED,
        "5s",
        ['+ ServiceMonitor ~-metrics-monitor spec.endpoints[].scrapeTimeout="5s"'],
    ),
    (
        "metrics.serviceMonitor.tlsVerify",
        CERTIFIED,
        True,
        [
            f'{ENDPOINT.format("+")}.bearerTokenFile="/var/run/secrets/kubernetes.io/serviceaccount/token"',
            f"{ENDPOINT.format('+')}.tlsConfig.insecureSkipVerify=false",
            "- ClusterRoleBinding ~-metrics-scraper",
            "- Secret ~-metrics-scraper",
            "- ServiceAccount ~-metrics-scraper",
            f'{ENDPOINT.format("-")}.authorization.credentials.key="token"',
            f'{ENDPOINT.format("-")}.authorization.credentials.name="{SCRAPER}"',
            f'{ENDPOINT.format("-")}.authorization.type="Bearer"',
            f"{ENDPOINT.format('-')}.tlsConfig.insecureSkipVerify=true",
        ],
    ),
    (
        "metrics.serviceMonitor.tlsServerName",
        MONITORED,
        "metrics.example",
        ['+ ServiceMonitor ~-metrics-monitor spec.endpoints[].tlsConfig.serverName="metrics.example"'],
    ),
    (
        "metrics.serviceMonitor.caSecret.name",
        MONITORED,
        "authority",
        [
            '+ ServiceMonitor ~-metrics-monitor spec.endpoints[].tlsConfig.ca.secret.key="ca.crt"',
            '+ ServiceMonitor ~-metrics-monitor spec.endpoints[].tlsConfig.ca.secret.name="authority"',
        ],
    ),
    (
        "metrics.serviceMonitor.caSecret.key",
        VERIFIED,
        "root.pem",
        [
            '+ ServiceMonitor ~-metrics-monitor spec.endpoints[].tlsConfig.ca.secret.key="root.pem"',
            '- ServiceMonitor ~-metrics-monitor spec.endpoints[].tlsConfig.ca.secret.key="ca.crt"',
        ],
    ),
    ("prometheusRule.enabled", {}, True, ["+ PrometheusRule ~-alerts"]),
    (
        "prometheusRule.namespace",
        ALERTED,
        "monitoring",
        ["+ PrometheusRule monitoring/~-alerts", "- PrometheusRule ~-alerts"],
    ),
    (
        "prometheusRule.labels",
        ALERTED,
        {"release": "prometheus"},
        ['+ PrometheusRule ~-alerts metadata.labels.release="prometheus"'],
    ),
    (
        "prometheusRule.runbookUrl",
        ALERTED,
        "https://wiki/runbooks/",
        [
            '+ PrometheusRule ~-alerts [DecisionModelCandidateTimeout].annotations.runbook_url="https://wiki/runbooks/DecisionModelCandidateTimeout.md"',
            '+ PrometheusRule ~-alerts [DecisionModelDegraded].annotations.runbook_url="https://wiki/runbooks/DecisionModelDegraded.md"',
            '+ PrometheusRule ~-alerts [DecisionModelEvaluationPoor].annotations.runbook_url="https://wiki/runbooks/DecisionModelEvaluationPoor.md"',
            '+ PrometheusRule ~-alerts [DecisionModelModelMismatch].annotations.runbook_url="https://wiki/runbooks/DecisionModelModelMismatch.md"',
            '+ PrometheusRule ~-alerts [DecisionModelOperatorDown].annotations.runbook_url="https://wiki/runbooks/DecisionModelOperatorDown.md"',
            '+ PrometheusRule ~-alerts [DecisionModelOperatorReconcileErrors].annotations.runbook_url="https://wiki/runbooks/DecisionModelOperatorReconcileErrors.md"',
            '+ PrometheusRule ~-alerts [DecisionModelRolloutFailures].annotations.runbook_url="https://wiki/runbooks/DecisionModelRolloutFailures.md"',
            '+ PrometheusRule ~-alerts [DecisionModelRolloutQueuedLong].annotations.runbook_url="https://wiki/runbooks/DecisionModelRolloutQueuedLong.md"',
            '+ PrometheusRule ~-alerts [DecisionModelRolloutStuck].annotations.runbook_url="https://wiki/runbooks/DecisionModelRolloutStuck.md"',
            '+ PrometheusRule ~-alerts [DecisionModelStackOperationsFailing].annotations.runbook_url="https://wiki/runbooks/DecisionModelStackOperationsFailing.md"',
        ],
    ),
    (
        "prometheusRule.windows.rolloutStuck",
        ALERTED,
        "1h",
        [
            '+ PrometheusRule ~-alerts [DecisionModelRolloutStuck].for="1h"',
            '- PrometheusRule ~-alerts [DecisionModelRolloutStuck].for="15m"',
        ],
    ),
    (
        "prometheusRule.windows.candidateTimeout",
        ALERTED,
        "1h",
        [
            '+ PrometheusRule ~-alerts [DecisionModelCandidateTimeout].for="1h"',
            '- PrometheusRule ~-alerts [DecisionModelCandidateTimeout].for="20m"',
        ],
    ),
    (
        "prometheusRule.windows.rolloutQueued",
        ALERTED,
        "1h",
        [
            '+ PrometheusRule ~-alerts [DecisionModelRolloutQueuedLong].for="1h"',
            '- PrometheusRule ~-alerts [DecisionModelRolloutQueuedLong].for="30m"',
        ],
    ),
    (
        "prometheusRule.windows.degraded",
        ALERTED,
        "1h",
        [
            '+ PrometheusRule ~-alerts [DecisionModelDegraded].for="1h"',
            '- PrometheusRule ~-alerts [DecisionModelDegraded].for="10m"',
        ],
    ),
    (
        "prometheusRule.windows.operatorDown",
        ALERTED,
        "1h",
        [
            '+ PrometheusRule ~-alerts [DecisionModelOperatorDown].for="1h"',
            '- PrometheusRule ~-alerts [DecisionModelOperatorDown].for="5m"',
        ],
    ),
    (
        "prometheusRule.thresholds.minAccuracy",
        ALERTED,
        0.9,
        [
            "+ " + poor(0.9, 0.7, 0.15),
            "- " + poor(0.8, 0.7, 0.15),
        ],
    ),
    (
        "prometheusRule.thresholds.minMacroF1",
        ALERTED,
        0.9,
        [
            "+ " + poor(0.8, 0.9, 0.15),
            "- " + poor(0.8, 0.7, 0.15),
        ],
    ),
    (
        "prometheusRule.thresholds.maxEce",
        ALERTED,
        0.05,
        [
            "+ " + poor(0.8, 0.7, 0.05),
            "- " + poor(0.8, 0.7, 0.15),
        ],
    ),
    ("grafanaDashboard.enabled", {}, True, ["+ ConfigMap ~-dashboard"]),
    (
        "grafanaDashboard.namespace",
        SHOWN,
        "monitoring",
        ["+ ConfigMap monitoring/~-dashboard", "- ConfigMap ~-dashboard"],
    ),
    (
        "grafanaDashboard.labels",
        SHOWN,
        {"dashboards": "yes"},
        [
            '+ ConfigMap ~-dashboard metadata.labels.dashboards="yes"',
            '- ConfigMap ~-dashboard metadata.labels.grafana_dashboard="1"',
        ],
    ),
    (
        "grafanaDashboard.folder",
        SHOWN,
        "Models",
        ['+ ConfigMap ~-dashboard metadata.annotations.grafana_folder="Models"'],
    ),
    (
        "networkPolicies.enabled",
        {"networkPolicies": {"namespaces": ["models"]}},
        True,
        ["+ NetworkPolicy models/~-clients", "+ NetworkPolicy models/~-egress"],
    ),
    (
        "networkPolicies.namespaces",
        POLICED,
        ["models", "teams"],
        ["+ NetworkPolicy teams/~-clients", "+ NetworkPolicy teams/~-egress"],
    ),
    (
        "networkPolicies.egressPorts",
        POLICED,
        [8443],
        [
            "+ NetworkPolicy models/~-egress spec.egress[].ports[].port=8443",
            "- NetworkPolicy models/~-egress spec.egress[].ports[].port=443",
        ],
    ),
    ("networkPolicies.manager", {}, False, ["- NetworkPolicy ~-manager"]),
    ("installCrds", {}, False, ["- CustomResourceDefinition decisionmodels.decisionmodel.io"]),
    ("models", {}, "shared", []),
    ("waitForModels.enabled", {}, False, []),
    ("waitForModels.timeoutSeconds", {}, 60, []),
    ("retain.definition", {}, False, []),
    ("retain.models", {}, False, []),
    ("retain.state", {}, False, []),
]


def having(configuration: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    whole = copy.deepcopy(configuration)
    *sections, last = key.split(".")
    section = whole
    for name in sections:
        section = section.setdefault(name, {})
    section[last] = value
    return whole


@pytest.mark.parametrize(("key", "needed", "value", "changed"), TABLE, ids=[row[0] for row in TABLE])
def test_a_key_changes_this_and_nothing_else(key: str, needed: dict[str, Any], value: Any, changed: list[str]) -> None:
    # The definition takes long to read, and nothing but its own key has to do with it.
    base = needed if key == "installCrds" else {**needed, "installCrds": False}

    assert changes(rendered(**base), rendered(**having(base, key, value))) == changed


def test_no_key_is_left_out() -> None:
    assert sorted(row[0] for row in TABLE) == sorted(KEYS)

"""Everything the platform itself consists of, as plain Kubernetes objects in the order they must be applied in.

The models' own objects are not here: the reconciler makes those.
"""

from __future__ import annotations

from api import crd
from components.configuration import PlatformConfiguration, StateVolume
from components.desired import JsonObject
from components.platform.alerts import prometheus_rule
from components.platform.dashboard import dashboard_config_map
from components.platform.metadata import (
    LABELS,
    MANAGER_LABELS,
    MANAGER_NAME,
    STATE_CLAIM_NAME,
    SYSTEM_NAMESPACE,
    metadata,
)
from components.platform.monitoring import metrics_service, scraper, service_monitor
from components.platform.network import manager_policy, network_policies
from components.platform.pod import pod_spec
from components.platform.policy import EnforcedPolicy
from components.platform.rbac import manager_roles, scraping_roles, user_roles


def platform_manifests(configuration: PlatformConfiguration, policy: EnforcedPolicy | None = None) -> list[JsonObject]:
    """Return the platform's objects; those that others need come first.

    Args:
        configuration: The environment's.
        policy: What `configuration.policy` stands for.
    """
    return [
        *([_custom_resource_definition()] if configuration.install_crds else []),
        _namespace(),
        _service_account(configuration),
        *manager_roles(configuration.manager.watch_namespaces),
        *user_roles(),
        *_state_claim(configuration.state),
        *_metrics(configuration),
        *network_policies(configuration),
        *([manager_policy(configuration)] if configuration.network_policies.manager else []),
        *([prometheus_rule(configuration.prometheus_rule)] if configuration.prometheus_rule.enabled else []),
        *([dashboard_config_map(configuration.grafana_dashboard)] if configuration.grafana_dashboard.enabled else []),
        *([policy.config_map()] if policy else []),
        _deployment(configuration, policy),
    ]


def _custom_resource_definition() -> JsonObject:
    return {**crd.load(), "metadata": metadata(crd.CRD_NAME, namespace=None)}


def _namespace() -> JsonObject:
    labels = {**LABELS, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(SYSTEM_NAMESPACE, None, labels)}


def _service_account(configuration: PlatformConfiguration) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(MANAGER_NAME, annotations=configuration.service_account.annotations),
        # The one Pod that needs a token mounts it by itself.
        "automountServiceAccountToken": False,
    }


def _metrics(configuration: PlatformConfiguration) -> list[JsonObject]:
    endpoint = configuration.metrics_endpoint
    if endpoint is None:
        return []
    monitor = configuration.metrics.service_monitor
    monitored = monitor.enabled
    return [
        *(scraping_roles() if endpoint.secure else []),
        metrics_service(endpoint),
        *(scraper(monitor) if monitored and endpoint.secure and not monitor.tls_verify else []),
        *([service_monitor(configuration, endpoint)] if monitored else []),
    ]


def _state_claim(state: StateVolume) -> list[JsonObject]:
    if state.size is None:
        return []
    storage_class = {} if state.storage_class_name is None else {"storageClassName": state.storage_class_name}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(STATE_CLAIM_NAME),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": str(state.size)}},
            **storage_class,
        },
    }
    return [claim]


def _strategy(configuration: PlatformConfiguration) -> JsonObject:
    """Let two Pods overlap only where the Lease keeps one from acting, and no claim for one node from starting.

    The shares are the API's defaults. They are declared so that they are ours: those of nobody would stay, and be
    refused, when the type changes.
    """
    if configuration.state.size is not None or not configuration.manager.leader_elect:
        return {"type": "Recreate"}
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}


def _deployment(configuration: PlatformConfiguration, policy: EnforcedPolicy | None) -> JsonObject:
    annotations = {"annotations": policy.annotations()} if policy else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(MANAGER_NAME, labels=MANAGER_LABELS),
        "spec": {
            "replicas": configuration.replicas,
            "selector": {"matchLabels": dict(MANAGER_LABELS)},
            "strategy": _strategy(configuration),
            "template": {
                "metadata": {"labels": dict(MANAGER_LABELS), **annotations},
                "spec": pod_spec(configuration, policy),
            },
        },
    }

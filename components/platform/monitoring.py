"""The Service in front of `/metrics`, and what makes a Prometheus operator scrape it."""

from __future__ import annotations

from typing import Any

from components.configuration import MetricsEndpoint, PlatformConfiguration, ServiceMonitor
from components.desired import JsonObject
from components.platform.metadata import (
    LABELS,
    MANAGER_LABELS,
    METRICS_SERVICE_NAME,
    NAME,
    SYSTEM_NAMESPACE,
    metadata,
)
from components.platform.pod import METRICS_PORT_NAME
from components.platform.rbac import METRICS_READER_ROLE

_SCRAPER = f"{NAME}-metrics-scraper"
_SCRAPER_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  # a path in the scraper's Pod


def metrics_service(endpoint: MetricsEndpoint) -> JsonObject:
    """Return the Service that metrics are scraped through."""
    port = {"name": METRICS_PORT_NAME, "port": endpoint.port, "targetPort": METRICS_PORT_NAME, "protocol": "TCP"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(METRICS_SERVICE_NAME, labels=MANAGER_LABELS),
        "spec": {"selector": dict(MANAGER_LABELS), "ports": [port]},
    }


def service_monitor(configuration: PlatformConfiguration, endpoint: MetricsEndpoint) -> JsonObject:
    """Return the ServiceMonitor (monitoring.coreos.com/v1) of that Service."""
    monitor = configuration.metrics.service_monitor
    pace = {"interval": monitor.interval, "scrapeTimeout": monitor.scrape_timeout}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": metadata(f"{NAME}-metrics-monitor", _home(monitor), {**LABELS, **monitor.labels}),
        "spec": {
            "namespaceSelector": {"matchNames": [SYSTEM_NAMESPACE]},
            "selector": {"matchLabels": dict(MANAGER_LABELS)},
            "endpoints": [
                {
                    "port": METRICS_PORT_NAME,
                    "path": "/metrics",
                    # The series' own namespace is the model's, which the scraped Pod's must not replace.
                    "honorLabels": True,
                    **{name: value for name, value in pace.items() if value},
                    **(_secured(monitor) if endpoint.secure else {"scheme": "http"}),
                }
            ],
        },
    }


def scraper(monitor: ServiceMonitor) -> list[JsonObject]:
    """Return an account that may read `/metrics` and nothing else, and its token, where the Prometheus operator looks.

    Its token goes to whoever answers when no certificate is checked. Prometheus's own would be worth far more.
    """
    namespace = _home(monitor)
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(_SCRAPER, namespace),
            "automountServiceAccountToken": False,
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            # The cluster fills it in, and empties it with the account.
            "metadata": metadata(_SCRAPER, namespace, annotations={"kubernetes.io/service-account.name": _SCRAPER}),
            "type": "kubernetes.io/service-account-token",
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata(_SCRAPER, None),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": METRICS_READER_ROLE},
            "subjects": [{"kind": "ServiceAccount", "name": _SCRAPER, "namespace": namespace}],
        },
    ]


def _home(monitor: ServiceMonitor) -> str:
    return monitor.namespace or SYSTEM_NAMESPACE


def _credentials(monitor: ServiceMonitor) -> dict[str, Any]:
    """Return whose token is sent: the scraper's own only to who has proved to be the reconciler."""
    if monitor.tls_verify:
        return {"bearerTokenFile": _SCRAPER_TOKEN}
    return {"authorization": {"type": "Bearer", "credentials": {"name": _SCRAPER, "key": "token"}}}


def _secured(monitor: ServiceMonitor) -> dict[str, Any]:
    tls: dict[str, Any] = {"insecureSkipVerify": not monitor.tls_verify}
    if monitor.tls_server_name:
        tls["serverName"] = monitor.tls_server_name
    if monitor.ca_secret:
        tls["ca"] = {"secret": {"name": monitor.ca_secret.name, "key": monitor.ca_secret.key}}
    return {"scheme": "https", **_credentials(monitor), "tlsConfig": tls}

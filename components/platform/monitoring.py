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
        "metadata": metadata(
            f"{NAME}-metrics-monitor", monitor.namespace or SYSTEM_NAMESPACE, {**LABELS, **monitor.labels}
        ),
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


def _secured(monitor: ServiceMonitor) -> dict[str, Any]:
    tls: dict[str, Any] = {"insecureSkipVerify": not monitor.tls_verify}
    if monitor.tls_server_name:
        tls["serverName"] = monitor.tls_server_name
    if monitor.ca_secret:
        tls["ca"] = {"secret": {"name": monitor.ca_secret.name, "key": monitor.ca_secret.key}}
    return {"scheme": "https", "bearerTokenFile": _SCRAPER_TOKEN, "tlsConfig": tls}

"""Who may ask the models, where their Pods may go, and what of the reconciler can be reached."""

from __future__ import annotations

from typing import Any

from api.keys import GROUP, NAME_LABEL, RUNTIME_PORT
from components.configuration import PlatformConfiguration
from components.desired import JsonObject
from components.platform.metadata import MANAGER_LABELS, NAME, SYSTEM_NAMESPACE, metadata
from components.platform.pod import HEALTH_PORT

_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_DNS_PORT = 53


def network_policies(configuration: PlatformConfiguration) -> list[JsonObject]:
    """Return the two policies of every namespace that is to have them."""
    return [
        policy
        for namespace in configuration.policed_namespaces
        for policy in (
            _policy(f"{NAME}-clients", namespace, "Ingress", {"ingress": [_from_clients()]}),
            _policy(
                f"{NAME}-egress",
                namespace,
                "Egress",
                {"egress": [_to_dns(), _to_ports(configuration.network_policies.egress_ports)]},
            ),
        )
    ]


def manager_policy(configuration: PlatformConfiguration) -> JsonObject:
    """Return the policy of the reconciler's own Pod: only the ports that it serves can be reached.

    Where it may go is left open. It asks the API server, registries, a bucket and proxies, at addresses and ports that
    no policy can name.
    """
    endpoint = configuration.metrics_endpoint
    served = (HEALTH_PORT, *([endpoint.port] if endpoint else []))
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(f"{NAME}-manager"),
        "spec": {
            "podSelector": {"matchLabels": dict(MANAGER_LABELS)},
            "policyTypes": ["Ingress"],
            "ingress": [_to_ports(served)],
        },
    }


def _policy(name: str, namespace: str, direction: str, rules: dict[str, Any]) -> JsonObject:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name, namespace),
        "spec": {
            "podSelector": {"matchExpressions": [{"key": NAME_LABEL, "operator": "Exists"}]},
            "policyTypes": [direction],
            **rules,
        },
    }


def _from_clients() -> dict[str, Any]:
    clients = {f"{GROUP}/client": "allowed"}
    prober = {_NAMESPACE_NAME: SYSTEM_NAMESPACE}
    return {
        "from": [{"namespaceSelector": {"matchLabels": labels}} for labels in (clients, prober)],
        "ports": [{"protocol": "TCP", "port": RUNTIME_PORT}],
    }


def _to_dns() -> dict[str, Any]:
    return {
        "to": [{"namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: "kube-system"}}}],
        "ports": [{"protocol": protocol, "port": _DNS_PORT} for protocol in ("UDP", "TCP")],
    }


def _to_ports(ports: tuple[int, ...]) -> dict[str, Any]:
    return {"ports": [{"protocol": "TCP", "port": port} for port in ports]}

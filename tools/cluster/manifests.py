"""The objects that a cluster starts with, as pure manifests."""

from typing import Any

from tools.cluster.layout import DNS_SERVICE_ADDRESS, NODE_ADDRESS, PROVISIONER, STORAGE_CLASS

_RBAC = "rbac.authorization.k8s.io"
_DNS_PORTS = (("dns", "UDP"), ("dns-tcp", "TCP"))


def initial_objects() -> list[dict[str, Any]]:
    """Rights of the components that Kubernetes has no default for, the DNS Service and the storage class."""
    return [
        _binding("kubelet-client", "kube-apiserver-kubelet-client", "system:kubelet-api-admin"),
        *_component_rights(
            "coredns",
            "system:coredns",
            [
                _rule("", ["endpoints", "services", "pods", "namespaces"], ["list", "watch"]),
                _rule("discovery.k8s.io", ["endpointslices"], ["list", "watch"]),
            ],
        ),
        *_component_rights(
            "local-provisioner",
            "local-provisioner",
            [
                _rule("", ["persistentvolumeclaims"], ["list", "watch"]),
                _rule("", ["persistentvolumes"], ["list", "watch", "create", "delete"]),
            ],
        ),
        _dns_service(),
        _dns_endpoints(),
        _storage_class(),
    ]


def _component_rights(name: str, user: str, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    return [role, _binding(name, user, name)]


def _rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _binding(name: str, user: str, role: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
    }


def _dns_service() -> dict[str, Any]:
    # No selector: CoreDNS is a process of the node, which the endpoints name by its address.
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {
            "clusterIP": DNS_SERVICE_ADDRESS,
            "ports": [{"name": name, "port": 53, "protocol": protocol} for name, protocol in _DNS_PORTS],
        },
    }


def _dns_endpoints() -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kube-dns-node",
            "namespace": "kube-system",
            "labels": {
                "kubernetes.io/service-name": "kube-dns",
                "endpointslice.kubernetes.io/managed-by": "decisionmodel.local",
            },
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [NODE_ADDRESS], "conditions": {"ready": True}}],
        "ports": [{"name": name, "port": 53, "protocol": protocol} for name, protocol in _DNS_PORTS],
    }


def _storage_class() -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "volumeBindingMode": "Immediate",
        "reclaimPolicy": "Delete",
    }

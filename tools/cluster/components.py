"""The processes of a cluster: what each one's command line is and what must be ready before it starts."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.configuration import component_kubeconfig
from tools.cluster.layout import (
    API_PORT,
    CONFIGURATION,
    DATA,
    ETCD_URL,
    NODE_ADDRESS,
    PKI,
    POD_NETWORK,
    SERVICE_NETWORK,
)

# etcd 3.4 answers a streaming list with an error, and these features ask for more than it knows.
_FEATURES_BEYOND_ETCD = (
    "WatchList=false,ListFromCacheSnapshot=false,SizeBasedListCostEstimate=false,DetectCacheInconsistency=false"
)


@dataclass(frozen=True)
class Component:
    """One process of the cluster.

    Attributes:
        name: of its log file and of its process record.
        command: its command line, inside the cluster's namespaces.
    """

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Programs:
    """Where the built programs are."""

    kubernetes: Callable[[str], Path]
    coredns: Path


def foundation() -> tuple[Component, ...]:
    """What needs nothing else: the store and the container runtime."""
    return (_etcd(), Component("containerd", ("containerd", f"--config={CONFIGURATION / 'containerd.toml'}")))


def control_plane(programs: Programs) -> tuple[Component, ...]:
    """What needs the store; the two controllers wait for the API server by themselves."""
    return (_api_server(programs), _controller_manager(programs), _scheduler(programs))


def node_services(programs: Programs, node: str) -> tuple[Component, ...]:
    """What needs the API server: it would otherwise back off and come back late."""
    return (
        _kubelet(programs, node),
        _kube_proxy(programs),
        Component("coredns", (str(programs.coredns), f"-conf={CONFIGURATION / 'Corefile'}")),
        Component(
            "provisioner",
            (sys.executable, "-m", "tools.cluster.provisioner", str(component_kubeconfig("provisioner")), node),
        ),
    )


def relay() -> Component:
    """The way in from the host: serves the listening socket that it finds as its standard input."""
    return Component("relay", (sys.executable, "-m", "tools.cluster.relay"))


def _etcd() -> Component:
    peers = "http://127.0.0.1:2380"
    return Component(
        "etcd",
        (
            "etcd",
            f"--data-dir={DATA / 'etcd'}",
            f"--listen-client-urls={ETCD_URL}",
            f"--advertise-client-urls={ETCD_URL}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            # Speed over safety against a power cut; a killed process loses nothing.
            "--unsafe-no-fsync",
            "--logger=zap",
            "--log-level=warn",
        ),
    )


def _api_server(programs: Programs) -> Component:
    return Component(
        "kube-apiserver",
        (
            str(programs.kubernetes("kube-apiserver")),
            f"--etcd-servers={ETCD_URL}",
            # With a loopback address the Service 10.96.0.1 would refuse every Pod.
            "--bind-address=0.0.0.0",
            f"--secure-port={API_PORT}",
            f"--advertise-address={NODE_ADDRESS}",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--client-ca-file={PKI / 'ca.crt'}",
            f"--tls-cert-file={PKI / 'apiserver.crt'}",
            f"--tls-private-key-file={PKI / 'apiserver.key'}",
            f"--kubelet-client-certificate={PKI / 'apiserver-kubelet-client.crt'}",
            f"--kubelet-client-key={PKI / 'apiserver-kubelet-client.key'}",
            f"--kubelet-certificate-authority={PKI / 'ca.crt'}",
            # The node's name resolves nowhere.
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={PKI / 'service-accounts.pub'}",
            f"--service-account-signing-key-file={PKI / 'service-accounts.key'}",
            f"--feature-gates={_FEATURES_BEYOND_ETCD}",
            "--profiling=false",
        ),
    )


def _controller_manager(programs: Programs) -> Component:
    return Component(
        "kube-controller-manager",
        (
            str(programs.kubernetes("kube-controller-manager")),
            f"--kubeconfig={component_kubeconfig('kube-controller-manager')}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--cluster-cidr={POD_NETWORK}",
            f"--service-account-private-key-file={PKI / 'service-accounts.key'}",
            f"--root-ca-file={PKI / 'ca.crt'}",
            f"--cluster-signing-cert-file={PKI / 'ca.crt'}",
            f"--cluster-signing-key-file={PKI / 'ca.key'}",
            "--profiling=false",
        ),
    )


def _scheduler(programs: Programs) -> Component:
    return Component(
        "kube-scheduler",
        (
            str(programs.kubernetes("kube-scheduler")),
            f"--config={CONFIGURATION / 'kube-scheduler.json'}",
            "--bind-address=127.0.0.1",
        ),
    )


def _kubelet(programs: Programs, node: str) -> Component:
    return Component(
        "kubelet",
        (
            str(programs.kubernetes("kubelet")),
            f"--config={CONFIGURATION / 'kubelet.json'}",
            f"--kubeconfig={component_kubeconfig('kubelet')}",
            f"--root-dir={DATA / 'kubelet'}",
            f"--hostname-override={node}",
            f"--node-ip={NODE_ADDRESS}",
        ),
    )


def _kube_proxy(programs: Programs) -> Component:
    return Component(
        "kube-proxy",
        (str(programs.kubernetes("kube-proxy")), f"--config={CONFIGURATION / 'kube-proxy.json'}"),
    )

"""The configuration file of every component, as pure text.

JSON stands in for YAML, of which it is a subset: nothing to quote wrongly.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

from tools.cluster.layout import (
    CLUSTER_DOMAIN,
    CONFIGURATION,
    CONTAINERD_SOCKET,
    DATA,
    DNS_READY_PORT,
    DNS_SERVICE_ADDRESS,
    IMAGES,
    NODE_ADDRESS,
    PKI,
    POD_NETWORK,
    SANDBOX_IMAGE,
)

_MAX_PODS = 200  # a bridge with one /16 has room; the point is to stay clear of kubelet's default of 110


@dataclass(frozen=True)
class Credentials:
    """What a client shows and trusts, in PEM."""

    authority: bytes
    certificate: bytes
    key: bytes


def kubeconfig(cluster: str, server: str, credentials: Credentials) -> str:
    """A kubeconfig with everything embedded, so that the file can be copied anywhere.

    Args:
        cluster: name of the cluster and of the context.
        server: base URL of the API server.
        credentials: the client's certificate.
    """
    return _json(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": cluster,
            "clusters": [
                {
                    "name": cluster,
                    "cluster": {"server": server, "certificate-authority-data": _base64(credentials.authority)},
                }
            ],
            "users": [
                {
                    "name": cluster,
                    "user": {
                        "client-certificate-data": _base64(credentials.certificate),
                        "client-key-data": _base64(credentials.key),
                    },
                }
            ],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        }
    )


def configuration_files(node: str, control_group: str) -> Mapping[Path, str]:
    """Every configuration file that does not carry a credential, by its path inside the cluster."""
    return {
        CONFIGURATION / "containerd.toml": _containerd(),
        CONFIGURATION / "cni" / "10-bridge.conflist": _json(_cni()),
        CONFIGURATION / "kubelet.json": _json(_kubelet(control_group)),
        CONFIGURATION / "kube-proxy.json": _json(_kube_proxy(node)),
        CONFIGURATION / "kube-scheduler.json": _json(_kube_scheduler()),
        CONFIGURATION / "Corefile": _corefile(),
        CONFIGURATION / "resolv.conf": f"nameserver {DNS_SERVICE_ADDRESS}\n",
    }


def _containerd() -> str:
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE runc dies when it lowers a sandbox's score.
    # The opt plugin would create /opt/containerd on the machine.
    return dedent(f"""\
        version = 2
        root = "{IMAGES}"
        state = "{CONTAINERD_SOCKET.parent}"
        disabled_plugins = [
          "io.containerd.internal.v1.opt",
          "io.containerd.snapshotter.v1.aufs",
          "io.containerd.snapshotter.v1.btrfs",
          "io.containerd.snapshotter.v1.devmapper",
          "io.containerd.snapshotter.v1.zfs",
        ]
        [grpc]
          address = "{CONTAINERD_SOCKET}"
        [plugins."io.containerd.grpc.v1.cri"]
          sandbox_image = "{SANDBOX_IMAGE}"
          restrict_oom_score_adj = true
          disable_apparmor = true
          netns_mounts_under_state_dir = true
          [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
            runtime_type = "io.containerd.runc.v2"
            [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
              SystemdCgroup = false
          [plugins."io.containerd.grpc.v1.cri".cni]
            bin_dir = "/usr/lib/cni"
            conf_dir = "{CONFIGURATION / "cni"}"
        """)


def _cni() -> dict[str, Any]:
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "pods",
                "isGateway": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": POD_NETWORK}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    # Leases end with the network namespace, so they live where it dies with them.
                    "dataDir": "/run/cni",
                },
            }
        ],
    }


def _kubelet(control_group: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(PKI / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(PKI / "kubelet-server.crt"),
        "tlsPrivateKeyFile": str(PKI / "kubelet-server.key"),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{control_group}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "maxPods": _MAX_PODS,
        "clusterDNS": [DNS_SERVICE_ADDRESS],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": str(CONFIGURATION / "resolv.conf"),
        "podLogsDir": str(DATA / "pod-logs"),
        "volumePluginDir": str(DATA / "volume-plugins"),
        "serializeImagePulls": False,
        "oomScoreAdj": 0,
    }


def _kube_proxy(node: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(component_kubeconfig("kube-proxy"))},
        "clusterCIDR": POD_NETWORK,
        "hostnameOverride": node,
        "mode": "iptables",
        "iptables": {"minSyncPeriod": "100ms"},
        "conntrack": {"maxPerCore": 0},
        "oomScoreAdj": 0,
    }


def _kube_scheduler() -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(component_kubeconfig("kube-scheduler"))},
        "leaderElection": {"leaderElect": False},
    }


def _corefile() -> str:
    # Two server blocks: in one, the template would answer before the cluster's own names are looked up. With it an
    # outside name costs an NXDOMAIN instead of a SERVFAIL that every resolver tries again.
    return dedent(f"""\
        {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
            bind {NODE_ADDRESS}
            errors
            ready 127.0.0.1:{DNS_READY_PORT}
            kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
                kubeconfig {component_kubeconfig("coredns")}
            }}
        }}
        . {{
            bind {NODE_ADDRESS}
            errors
            template ANY ANY {{
                rcode NXDOMAIN
            }}
        }}
        """)


def component_kubeconfig(component: str) -> Path:
    """Where a component finds its kubeconfig."""
    return CONFIGURATION / f"{component}.kubeconfig"


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()

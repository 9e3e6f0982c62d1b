"""Names, addresses and paths of one local cluster.

Every cluster has a network namespace of its own in which nothing else lives, so all of them use the same addresses
and ports. Inside its mount namespace the cluster's directory is always `HOME`, which keeps every path in a
configuration file short (a Unix socket's path holds 107 bytes) and the same wherever the work tree lies.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.errors import InvalidNameError

HOME = Path("/run/cluster")

NODE_ADDRESS = "10.0.0.10"
NODE_NETWORK_BITS = 24
POD_NETWORK = "10.244.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"
DNS_SERVICE_ADDRESS = "10.96.0.10"
CLUSTER_DOMAIN = "cluster.local"
API_PORT = 6443
ETCD_URL = "http://127.0.0.1:2379"
DNS_READY_PORT = 8181
CONTAINERD_SOCKET = Path("/run/containerd/containerd.sock")

PKI = HOME / "pki"
CONFIGURATION = HOME / "configuration"
DATA = HOME / "data"
IMAGES = HOME / "images"
VOLUMES = DATA / "volumes"

STORAGE_CLASS = "local"
PROVISIONER = "decisionmodel.local/directory"
SANDBOX_IMAGE = "decisionmodel.local/pause:1"

_NAME = re.compile(r"[a-z][a-z0-9-]{0,29}[a-z0-9]")
_CLUSTERS = Path(__file__).parents[2] / ".local"


@dataclass(frozen=True)
class Layout:
    """Where one cluster keeps what, seen from the host.

    Attributes:
        name: the cluster's name, which is also its node's.
        directory: everything that the cluster writes.
    """

    name: str
    directory: Path

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; its server address goes through the relay."""
        return self.directory / "kubeconfig"

    @property
    def logs(self) -> Path:
        """One log file per process."""
        return self.directory / "logs"

    @property
    def records(self) -> Path:
        """One record per running process."""
        return self.directory / "run"

    @property
    def port_file(self) -> Path:
        """The relay's port: chosen once, since clients identify a cluster by its address."""
        return self.directory / "port"

    @property
    def lock_file(self) -> Path:
        """Held by whoever starts or stops the cluster; beside the directory, which `down` may remove."""
        return self.directory.with_name(f"{self.name}.lock")

    @property
    def control_group(self) -> str:
        """Parent of all Pods' control groups; tells apart clusters of the same name in several work trees."""
        place = hashlib.sha256(bytes(self.directory)).hexdigest()[:8]
        return f"decisionmodel-{self.name}-{place}"

    def on_host(self, inside: Path) -> Path:
        """The host's path of a file under `HOME`."""
        return self.directory / inside.relative_to(HOME)


def layout_of(name: str, clusters: Path = _CLUSTERS) -> Layout:
    """The layout of the cluster of this name.

    Args:
        name: lower-case letters, digits and dashes; a DNS label, because the node is called so.
        clusters: the directory that holds one directory per cluster.

    Raises:
        InvalidNameError: the name is something else.
    """
    if _NAME.fullmatch(name) is None:
        raise InvalidNameError(f"{name!r} is no cluster name: use 2 to 31 lower-case letters, digits and dashes")
    return Layout(name, clusters.resolve() / name)

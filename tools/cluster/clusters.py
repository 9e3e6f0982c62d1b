"""The public face: a cluster by name, up or down."""

import datetime as dt
import fcntl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.api import AdminClient
from tools.cluster.errors import NotRunningError
from tools.cluster.images import load_image
from tools.cluster.layout import PKI, Layout, layout_of
from tools.cluster.namespaces import inside, node_record
from tools.cluster.ports import api_address, read_port
from tools.cluster.processes import Process, load_process
from tools.cluster.shutdown import forget, purge, recorded_processes, stop
from tools.cluster.startup import COMPONENT_NAMES, Progress, start

_EVER = dt.datetime.min.replace(tzinfo=dt.UTC)


@dataclass(frozen=True)
class Status:
    """How a cluster is.

    Attributes:
        components: whether each process lives; empty where nothing was started.
        serves: whether the API server is ready.
        node_is_ready: whether Pods can run.
    """

    components: Mapping[str, bool]
    serves: bool
    node_is_ready: bool

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is missing."""
        alive = {name for name, lives in self.components.items() if lives}
        return alive >= COMPONENT_NAMES and self.serves and self.node_is_ready


@dataclass(frozen=True)
class Cluster:
    """A local cluster, whether it is up or not."""

    layout: Layout

    @property
    def name(self) -> str:
        """The cluster's name, its node's and its kubeconfig context's."""
        return self.layout.name

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, for use on the host."""
        return self.layout.kubeconfig

    def status(self) -> Status:
        """Look at the processes, the API server and the node."""
        components = {name: process.is_alive for name, process in recorded_processes(self.layout).items()}
        port = read_port(self.layout)
        if port is None or not any(components.values()) or not self.kubeconfig.exists():
            return Status(components, serves=False, node_is_ready=False)
        authority = self.layout.on_host(PKI / "ca.crt")
        with AdminClient(self.kubeconfig, api_address(port), authority) as client:
            serves = client.serves()
            return Status(components, serves, serves and client.node_is_ready(self.name, _EVER))

    def load(self, archive: Path, names: Sequence[str] = ()) -> tuple[str, ...]:
        """Bring an image into the cluster; costs next to nothing where it is there already.

        Args:
            archive: a docker-archive or an OCI archive with one image.
            names: references for it, possibly pinned by another digest; the archive's own by default.

        Returns:
            The names as the container runtime knows them.

        Raises:
            ImageError: the archive is unusable or nameless.
            NotRunningError: the cluster is not up.
        """
        return load_image(self._node(), archive, names)

    def inside(self, *command: str) -> tuple[str, ...]:
        """The command line that runs a command on the cluster's node, where Service addresses are reachable.

        Raises:
            NotRunningError: the cluster is not up.
        """
        return inside(self._node(), *command)

    def down(self, *, everything: bool = False) -> None:
        """End the cluster: its objects and volumes are gone. Does nothing where it is down already.

        Args:
            everything: also remove its images, logs, certificates and its port.

        Raises:
            ClusterError: a process does not die.
        """
        with _exclusive(self.layout):
            stop(self.layout)
            forget(self.layout)
            if everything:
                purge(self.layout)

    def _node(self) -> Process:
        node = load_process(node_record(self.layout))
        if node is None or not node.is_alive:
            raise NotRunningError(f"cluster {self.name} is not up: run python -m tools.cluster up {self.name}")
        return node


def cluster(name: str) -> Cluster:
    """The cluster of this name, up or not.

    Raises:
        InvalidNameError: no cluster can be called so.
    """
    return Cluster(layout_of(name))


def up(name: str, progress: Progress = lambda _: None) -> Cluster:
    """Make sure that the cluster runs and is healthy; does nothing where it is.

    What is there but not healthy is ended and started again with its objects, volumes and images.

    Args:
        name: the cluster's name.
        progress: told what happens, in a few words each.

    Raises:
        ClusterError: it cannot be; nothing of it runs then, and its logs tell more.
    """
    wanted = cluster(name)
    with _exclusive(wanted.layout):
        if not wanted.status().is_healthy:
            stop(wanted.layout)
            start(wanted.layout, progress, lambda: dt.datetime.now(dt.UTC))
    return wanted


@contextmanager
def _exclusive(layout: Layout) -> Iterator[None]:
    """Let one command at a time start or stop a cluster."""
    layout.lock_file.parent.mkdir(parents=True, exist_ok=True)
    with layout.lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

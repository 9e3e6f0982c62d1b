"""The cluster's namespaces: made by starting its node process, entered by every other process."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.cluster.errors import ClusterError, PrerequisiteError
from tools.cluster.layout import NODE_ADDRESS, NODE_NETWORK_BITS, SERVICE_NETWORK, Layout
from tools.cluster.processes import Process, spawn

_PROJECT = Path(__file__).parents[2]

# A veth pair inside the namespace stands for the machine's network card (the kernel may lack the dummy device). There
# is no way out: what is no Pod, no Service and not this node is unreachable at once.
_NETWORK = f"""\
link set lo up
link add node type veth peer name wire
link set node up
link set wire up
addr add {NODE_ADDRESS}/{NODE_NETWORK_BITS} dev node
route add {SERVICE_NETWORK} dev node
route add unreachable default
"""

_NETWORK_SETTINGS = ("net.ipv4.ip_forward=1", "net.bridge.bridge-nf-call-iptables=1")
_BRIDGE_SETTINGS = "/proc/sys/net/bridge"
_BRIDGE_MODULE = "br_netfilter"


def node_record(layout: Layout) -> Path:
    """The record of the node process."""
    return layout.records / "node.json"


def start_node(layout: Layout) -> Process:
    """Start the node process.

    Returns:
        The launcher; the node itself writes its record when the mounts are in place.
    """
    command = (
        *(_program("unshare"), "--net", "--mount", "--pid", "--fork", "--kill-child", "--"),
        *(sys.executable, "-m", "tools.cluster.node", str(layout.directory), str(node_record(layout))),
    )
    return spawn(command, layout.logs / "node.log", project_environment())


def inside(node: Process, *command: str) -> tuple[str, ...]:
    """The command line that runs a command inside the cluster's namespaces."""
    return (_program("nsenter"), f"--target={node.pid}", "--net", "--mount", "--pid", "--", *command)


def run_inside(node: Process, *command: str, text: str = "") -> str:
    """Run a short command inside the cluster.

    Args:
        node: the node process.
        command: the command line.
        text: its standard input.

    Returns:
        Its standard output.

    Raises:
        ClusterError: it failed; the message holds what it said.
    """
    run = subprocess.run(inside(node, *command), input=text, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise ClusterError(f"{' '.join(command)} failed inside the cluster: {run.stderr.strip()}")
    return run.stdout


def succeeds_inside(node: Process, *command: str) -> bool:
    """Whether a short command succeeds inside the cluster."""
    try:
        run_inside(node, *command)
    except ClusterError:
        return False
    return True


def connect_network(node: Process) -> None:
    """Give the node its address, and its Pods a way to each other.

    Raises:
        PrerequisiteError: the kernel lacks the module that lets iptables see bridged packets.
        ClusterError: the kernel refused.
    """
    run_inside(node, "ip", "-batch", "-", text=_NETWORK)
    _load_bridge_module(node)
    run_inside(node, "sysctl", "--quiet", "--write", *_NETWORK_SETTINGS)


def project_environment() -> Mapping[str, str]:
    """The environment in which the cluster's own Python programs find this project."""
    return os.environ | {"PYTHONPATH": str(_PROJECT)}


def _load_bridge_module(node: Process) -> None:
    """Some kernels have it built in; on others it is a module, which nobody else may have asked for yet."""
    # Looked at inside: what is below /proc/sys/net depends on the network namespace of whoever looks.
    if succeeds_inside(node, "test", "-d", _BRIDGE_SETTINGS):
        return
    try:
        run_inside(node, "modprobe", _BRIDGE_MODULE)
    except ClusterError as error:
        raise PrerequisiteError(
            f"the kernel module {_BRIDGE_MODULE} is not loaded: run modprobe {_BRIDGE_MODULE} on the host, "
            f"or boot a kernel that has it ({error})"
        ) from error


def _program(name: str) -> str:
    found: Sequence[str] = [path] if (path := shutil.which(name)) else []
    if not found:
        raise PrerequisiteError(f"{name} is missing: run python3 -m tools.toolchain packages")
    return found[0]

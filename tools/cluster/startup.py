"""Bringing one cluster up, step by step; everything that can run side by side does."""

import datetime as dt
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from tools.cluster.api import AdminClient
from tools.cluster.cgroups import create_control_group
from tools.cluster.components import (
    Component,
    Programs,
    control_plane,
    foundation,
    node_services,
    relay,
)
from tools.cluster.configuration import Credentials, component_kubeconfig, configuration_files, kubeconfig
from tools.cluster.errors import ClusterError, PrerequisiteError
from tools.cluster.images import load_image
from tools.cluster.layout import API_PORT, CONTAINERD_SOCKET, DATA, DNS_READY_PORT, PKI, SANDBOX_IMAGE, Layout
from tools.cluster.namespaces import (
    connect_network,
    inside,
    node_record,
    project_environment,
    start_node,
    succeeds_inside,
)
from tools.cluster.pki import ensure_pki, identities
from tools.cluster.ports import api_address, listen, read_port
from tools.cluster.processes import Process, load_process, spawn
from tools.cluster.readiness import Watched, check_alive, wait_for
from tools.cluster.sandbox import write_sandbox_archive
from tools.cluster.shutdown import stop
from tools.toolchain import ToolchainError, kubernetes_component, program_path

Progress = Callable[[str], None]

_SYSTEM_PROGRAMS = (
    *("busybox", "conntrack", "containerd", "ctr", "etcd", "ip", "iptables"),
    *("mount", "nsenter", "runc", "sysctl", "unshare"),
)
_CNI_PLUGIN = Path("/usr/lib/cni/bridge")
_KUBECONFIG_OWNERS = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns", "provisioner")
COMPONENT_NAMES = frozenset({"node", "relay", "etcd", "containerd", "kube-apiserver", *_KUBECONFIG_OWNERS})

# Collecting garbage less often saves an eighth of all that a cluster under test computes, for some 150 MiB.
_COLLECT_LESS = {"GOGC": "400"}

_NODE_SECONDS = 10.0
_CONTAINERD_SECONDS = 30.0
_API_SECONDS = 60.0
_READY_SECONDS = 60.0


def start(layout: Layout, progress: Progress, now: Callable[[], dt.datetime]) -> None:
    """Start every process of the cluster and wait until Pods can run.

    What an earlier run left in the cluster's directory is used again: it comes back as after a power cut.

    Args:
        layout: the cluster; nothing of it runs.
        progress: told what happens, in a few words each.
        now: the clock.

    Raises:
        PrerequisiteError: something is missing on the machine.
        ComponentFailedError: a process died.
        NotReadyError: something took too long.
    """
    programs = _check_prerequisites()
    _keep_previous_logs(layout)
    layout.directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as undo:
        undo.callback(stop, layout)
        listener = undo.enter_context(listen(layout))
        _write_files(layout, now())
        _Start(layout, progress, programs).run(listener.fileno(), now)
        listener.close()
        undo.pop_all()


class _Start:
    """One start in progress: knows the processes that run so far."""

    def __init__(self, layout: Layout, progress: Progress, programs: Programs) -> None:
        self._layout = layout
        self._progress = progress
        self._programs = programs
        self._processes: dict[str, Process] = {}

    def run(self, listener: int, now: Callable[[], dt.datetime]) -> None:
        layout = self._layout
        create_control_group(layout.control_group)
        node = self._start_node()
        connect_network(node)
        self._progress("starting etcd, containerd and the control plane")
        self._spawn(node, relay(), standard_input=listener)
        self._spawn_all(node, foundation())
        self._spawn_all(node, control_plane(self._programs))
        self._load_sandbox_image(node)
        authority = layout.on_host(PKI / "ca.crt")
        with AdminClient(layout.kubeconfig, api_address(_chosen_port(layout)), authority) as client:
            self._wait("the API server", client.serves, _API_SECONDS)
            self._progress("starting kubelet, kube-proxy, DNS and the volume provisioner")
            client.create_initial_objects()
            # The API speaks in whole seconds.
            since = now().replace(microsecond=0)
            self._spawn_all(node, node_services(self._programs, layout.name))
            self._wait("the node", lambda: client.node_is_ready(layout.name, since), _READY_SECONDS)
            self._wait("the default service account", client.pods_can_be_created, _READY_SECONDS)
            self._wait("DNS", lambda: _dns_is_ready(node), _READY_SECONDS)

    def _start_node(self) -> Process:
        launcher = start_node(self._layout)
        launcher.save(self._layout.records / "launcher.json")
        self._processes["node"] = launcher
        record = node_record(self._layout)
        self._wait("the node's namespaces", record.exists, _NODE_SECONDS)
        node = load_process(record)
        if node is None:
            raise ClusterError(f"{record} cannot be read")
        return node

    def _load_sandbox_image(self, node: Process) -> None:
        archive = self._layout.directory / "sandbox.tar"
        if not archive.exists():
            write_sandbox_archive(archive)
        self._wait("containerd", lambda: _containerd_answers(node), _CONTAINERD_SECONDS)
        load_image(node, archive, [SANDBOX_IMAGE])

    def _spawn_all(self, node: Process, components: Iterable[Component]) -> None:
        for component in components:
            self._spawn(node, component)

    def _spawn(self, node: Process, component: Component, standard_input: int | None = None) -> None:
        process = spawn(
            inside(node, *component.command),
            self._layout.logs / f"{component.name}.log",
            {**_COLLECT_LESS, **project_environment()},
            standard_input,
        )
        process.save(self._layout.records / f"{component.name}.json")
        self._processes[component.name] = process

    def _wait(self, what: str, is_ready: Callable[[], bool], timeout_seconds: float) -> None:
        watched = Watched(self._processes, self._layout.logs)
        wait_for(what, is_ready, watched, timeout_seconds)
        check_alive(watched)


def _check_prerequisites() -> Programs:
    if os.geteuid() != 0:
        raise PrerequisiteError("a local cluster needs root: it makes namespaces, mounts and control groups")
    missing = [name for name in _SYSTEM_PROGRAMS if shutil.which(name) is None]
    missing += [] if _CNI_PLUGIN.exists() else [str(_CNI_PLUGIN)]
    if missing:
        raise PrerequisiteError(f"{', '.join(missing)} missing: run python3 -m tools.toolchain packages")
    try:
        program_path("kubernetes")
        return Programs(kubernetes_component, program_path("coredns"))
    except ToolchainError as error:
        raise PrerequisiteError(str(error)) from error


def _keep_previous_logs(layout: Layout) -> None:
    if layout.logs.exists():
        previous = layout.logs.with_name("logs.previous")
        shutil.rmtree(previous, ignore_errors=True)
        layout.logs.rename(previous)


def _write_files(layout: Layout, now: dt.datetime) -> None:
    ensure_pki(layout.on_host(PKI), identities(layout.name), now)
    for directory in ("kubelet", "volumes", "pod-logs", "volume-plugins"):
        layout.on_host(DATA / directory).mkdir(parents=True, exist_ok=True)
    for path, content in configuration_files(layout.name, layout.control_group).items():
        _write(layout.on_host(path), content)
    for owner in _KUBECONFIG_OWNERS:
        content = kubeconfig(layout.name, f"https://127.0.0.1:{API_PORT}", _credentials(layout, owner))
        _write(layout.on_host(component_kubeconfig(owner)), content)
    admin = kubeconfig(layout.name, api_address(_chosen_port(layout)), _credentials(layout, "admin"))
    _write(layout.kubeconfig, admin)


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(content)


def _credentials(layout: Layout, user: str) -> Credentials:
    pki = layout.on_host(PKI)
    return Credentials(
        authority=(pki / "ca.crt").read_bytes(),
        certificate=(pki / f"{user}.crt").read_bytes(),
        key=(pki / f"{user}.key").read_bytes(),
    )


def _chosen_port(layout: Layout) -> int:
    port = read_port(layout)
    if port is None:
        raise ClusterError(f"{layout.port_file} disappeared")
    return port


def _containerd_answers(node: Process) -> bool:
    return succeeds_inside(node, "ctr", f"--address={CONTAINERD_SOCKET}", "version")


def _dns_is_ready(node: Process) -> bool:
    return succeeds_inside(node, "busybox", "wget", "-q", "-O", "-", f"http://127.0.0.1:{DNS_READY_PORT}/ready")

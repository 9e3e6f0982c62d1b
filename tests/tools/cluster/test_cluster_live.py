"""A real local cluster, from its start over a crash to its end: what a Pod finds in it and what it leaves behind."""

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.cluster.clusters import Cluster, cluster, up
from tools.cluster.layout import STORAGE_CLASS, VOLUMES
from tools.cluster.processes import Process, identify
from tools.cluster.sandbox import write_sandbox_archive
from tools.cluster.shutdown import recorded_processes
from tools.cluster.startup import COMPONENT_NAMES
from tools.toolchain import kubectl

# One cluster for all, which some of the tests kill: they stay together and in order.
pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("selftest")]

_NAME = "selftest"
_IMAGE = "example.test/tools:1"
_PINNED = "ghcr.io/ollaya-dev/ollaya:0.12.0@sha256:f79e865fda7af45aa66617b85fe16b08688d27f83a3137a21c75d3b137d8cf39"
_WAIT_SECONDS = 40.0


@dataclass(frozen=True)
class Kubectl:
    """kubectl as the administrator of one cluster."""

    program: Path
    kubeconfig: Path

    def command(self, *arguments: str) -> list[str]:
        return [str(self.program), f"--kubeconfig={self.kubeconfig}", *arguments]

    def __call__(self, *arguments: str, text: str = "") -> str:
        run = subprocess.run(self.command(*arguments), input=text, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        return run.stdout

    def apply(self, *objects: Mapping[str, Any]) -> None:
        self("apply", "--filename=-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def wait(self, thing: str, condition: str) -> None:
        self("wait", thing, f"--for={condition}", f"--timeout={_WAIT_SECONDS:.0f}s")


def _processes(running: Cluster) -> list[Process]:
    """Every process of the cluster: the recorded ones and all below them."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    found = {process.pid for process in recorded_processes(running.layout).values()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return [process for pid in found if (process := identify(pid)) is not None]


def _traces() -> list[str]:
    """What of the cluster can be seen on the host, beside other clusters that run meanwhile."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    groups = Path("/sys/fs/cgroup").glob(f"*/decisionmodel-{_NAME}-*")
    interfaces = {path.name for path in Path("/sys/class/net").iterdir()} & {"node", "wire", "pods"}
    return [
        *(mount for mount in mounts if "/run/cluster" in mount or f"/{_NAME}/" in mount),
        *(str(group) for group in groups),
        *interfaces,
    ]


def _wait_until(is_reached: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not is_reached():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.1)


def _pod(name: str, script: str, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": _IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
    } | spec.pop("container", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]} | spec,
    }


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    cluster(_NAME).down(everything=True)
    started = time.monotonic()
    made = up(_NAME)
    assert time.monotonic() - started < 30
    yield made
    made.down(everything=True)


@pytest.fixture(scope="module")
def kube(running: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    archive = tmp_path_factory.mktemp("image") / "tools.tar"
    write_sandbox_archive(archive)
    running.load(archive, [_IMAGE, _PINNED])
    return Kubectl(kubectl(), running.kubeconfig)


def test_up_again_does_nothing_quickly(running: Cluster) -> None:
    processes = running.status().components
    started = time.monotonic()

    up(_NAME, lambda step: pytest.fail(f"did something: {step}"))

    assert time.monotonic() - started < 2
    assert running.status().components == processes


def test_loading_an_image_again_is_quick(running: Cluster, kube: Kubectl, tmp_path: Path) -> None:
    archive = tmp_path / "tools.tar"
    write_sandbox_archive(archive)
    started = time.monotonic()

    names = running.load(archive, [_IMAGE, _PINNED])

    assert time.monotonic() - started < 3
    assert names == (_IMAGE, _PINNED.replace(":0.12.0", ""))


def test_a_pod_finds_services_by_name_and_nothing_outside(kube: Kubectl) -> None:
    script = (
        "nslookup kubernetes.default.svc.cluster.local && nc kubernetes.default.svc.cluster.local 443 </dev/null "
        "&& ! nslookup example.org && ! nc 192.0.2.1 443 </dev/null "
        "&& test -s /var/run/secrets/kubernetes.io/serviceaccount/token"
    )
    kube.apply(_pod("names", script))
    kube.wait("pod/names", "jsonpath={.status.phase}=Succeeded")
    assert "NXDOMAIN" in kube("logs", "names")


def test_a_stand_in_takes_the_place_of_a_pinned_image(kube: Kubectl) -> None:
    kube.apply(_pod("pinned", "exec sleep 1000", container={"image": _PINNED}))
    kube.wait("pod/pinned", "condition=Ready")
    events = json.loads(kube("get", "events", "--field-selector=involvedObject.name=pinned", "--output=json"))
    assert any("already present" in event["message"] for event in events["items"])
    assert not any(event["reason"] in {"Pulling", "Failed"} for event in events["items"])


def _claim(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }


def _volume_pod(name: str, script: str, **mount: Any) -> dict[str, Any]:
    return _pod(
        name,
        script,
        securityContext={"runAsUser": 1000, "runAsNonRoot": True, "fsGroup": 1000},
        volumes=[{"name": "store", "persistentVolumeClaim": {"claimName": "store"}}],
        container={"volumeMounts": [{"name": "store", "mountPath": "/store"} | mount]},
    )


def test_a_volume_is_written_by_one_pod_and_read_by_another(kube: Kubectl) -> None:
    kube.apply(_claim("store"), _volume_pod("writer", "mkdir -p /store/models && echo weights > /store/models/a"))
    kube.wait("pod/writer", "jsonpath={.status.phase}=Succeeded")
    kube.apply(_volume_pod("reader", "cat /store/a && ! touch /store/b", subPath="models", readOnly=True))
    kube.wait("pod/reader", "jsonpath={.status.phase}=Succeeded")

    assert kube("logs", "reader").splitlines()[0] == "weights"
    claim = json.loads(kube("get", "pvc", "store", "--output=json"))
    assert claim["spec"]["storageClassName"] == STORAGE_CLASS


def test_a_service_leads_to_its_pod_also_from_the_node(running: Cluster, kube: Kubectl) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    kube.apply(service, _pod("web", "mkdir /www; echo served > /www/index.html; exec httpd -f -p 8080 -h /www"))
    kube.wait("pod/web", "condition=Ready")
    address = kube("get", "service", "web", "--output=jsonpath={.spec.clusterIP}")
    fetch = running.inside("busybox", "wget", "-q", "-O", "-", f"http://{address}")

    _wait_until(lambda: subprocess.run(fetch, capture_output=True, check=False).stdout == b"served\n", "an answer")


def test_exec_reaches_into_a_pod(kube: Kubectl) -> None:
    assert kube("exec", "--stdin", "web", "--", "cat", text="through and back") == "through and back"


@contextmanager
def _port_forward(kube: Kubectl, target: str, port: int) -> Iterator[int]:
    command = kube.command("port-forward", target, f":{port}")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()  # Forwarding from 127.0.0.1:PORT -> 8080
            yield int(line.split(" -> ")[0].rpartition(":")[2])
        finally:
            process.terminate()


def test_port_forward_reaches_a_pod(kube: Kubectl) -> None:
    with _port_forward(kube, "pod/web", 8080) as port, socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with connection.makefile("rb") as answer:
            assert answer.read().endswith(b"served\n")


def test_a_killed_cluster_comes_back_with_everything(running: Cluster, kube: Kubectl) -> None:
    kube("create", "configmap", "kept", "--from-literal=key=value")
    processes = _processes(running)
    assert len(processes) > len(COMPONENT_NAMES)
    for process in processes:
        process.kill()
    _wait_until(lambda: not any(process.is_alive for process in processes), "the end of every process")
    assert not running.status().is_healthy

    up(_NAME)

    assert running.status().is_healthy
    assert kube("get", "configmap", "kept", "--output=jsonpath={.data.key}") == "value"
    kube("delete", "pod", "reader")
    kube.apply(_volume_pod("reader", "cat /store/models/a"))
    kube.wait("pod/reader", "jsonpath={.status.phase}=Succeeded")
    assert kube("logs", "reader") == "weights\n"


def test_a_deleted_claims_directory_is_removed(running: Cluster, kube: Kubectl) -> None:
    volume = kube("get", "pvc", "store", "--output=jsonpath={.spec.volumeName}")
    directory = running.layout.on_host(VOLUMES / volume)
    assert (directory / "models" / "a").read_text() == "weights\n"

    kube("delete", "pod", "writer", "reader")
    kube("delete", "pvc", "store")

    _wait_until(lambda: not directory.exists(), "the removal of the directory")
    _wait_until(lambda: volume not in kube("get", "pv", "--output=name"), "the removal of the volume")


def test_a_component_that_ended_makes_up_start_anew(running: Cluster) -> None:
    recorded_processes(running.layout)["relay"].kill()
    # A signal is sent at once and acted on a moment later.
    _wait_until(lambda: not running.status().is_healthy, "the end of the relay")

    assert up(_NAME).status().is_healthy


def test_down_leaves_nothing_behind_and_may_be_repeated(running: Cluster) -> None:
    processes = _processes(running)
    running.down()
    assert not [process for process in processes if process.is_alive]
    assert _traces() == []
    assert running.status().components == {}

    running.down(everything=True)
    running.down(everything=True)
    assert not running.layout.directory.exists()

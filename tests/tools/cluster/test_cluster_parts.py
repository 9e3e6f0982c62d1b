"""The parts of the local cluster that need no cluster: names, certificates, configuration, processes, ports, relay."""

import asyncio
import base64
import datetime as dt
import json
import os
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from tools.cluster import relay
from tools.cluster.__main__ import main, status_lines
from tools.cluster.cgroups import hierarchies
from tools.cluster.clusters import Cluster, Status, cluster
from tools.cluster.components import Component, Programs, control_plane, foundation, node_services
from tools.cluster.configuration import Credentials, configuration_files, kubeconfig
from tools.cluster.errors import (
    ComponentFailedError,
    InvalidNameError,
    NotReadyError,
    NotRunningError,
    PrerequisiteError,
)
from tools.cluster.layout import CONFIGURATION, HOME, Layout, layout_of
from tools.cluster.manifests import initial_objects
from tools.cluster.pki import ensure_pki, identities
from tools.cluster.ports import candidate_ports, listen, read_port
from tools.cluster.processes import Process, identify, load_process, parse_stat, spawn, wait_until_dead
from tools.cluster.readiness import Watched, wait_for
from tools.cluster.startup import COMPONENT_NAMES

_NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = layout_of("unit", tmp_path)
    found.directory.mkdir()
    return found


@pytest.mark.parametrize("name", ["", "a", "-a", "a-", "A1", "a_b", "../up", "a/b", "a" * 32])
def test_a_name_that_is_no_node_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidNameError, match="cluster name"):
        layout_of(name, tmp_path)


def test_clusters_of_two_work_trees_have_different_control_groups(tmp_path: Path) -> None:
    assert layout_of("demo", tmp_path / "a").control_group != layout_of("demo", tmp_path / "b").control_group


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pki")
    ensure_pki(directory, identities("here"), _NOW)
    return directory


def _certificate(pki: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((pki / f"{name}.crt").read_bytes())


def test_the_api_server_answers_to_every_address_it_is_called_by(pki: Path) -> None:
    names = _certificate(pki, "apiserver").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)
    assert {"127.0.0.1", "10.0.0.10", "10.96.0.1"} == {str(ip) for ip in names.get_values_for_type(x509.IPAddress)}


@pytest.mark.parametrize(
    ("file", "user", "groups"),
    [
        ("admin", "admin", ["system:masters"]),
        ("kubelet", "system:node:here", ["system:nodes"]),
        ("apiserver-kubelet-client", "kube-apiserver-kubelet-client", []),
    ],
)
def test_a_client_is_who_its_certificate_says(pki: Path, file: str, user: str, groups: list[str]) -> None:
    certificate = _certificate(pki, file)
    subject = certificate.subject
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [user]
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == groups
    certificate.verify_directly_issued_by(_certificate(pki, "ca"))
    assert certificate.not_valid_before_utc < _NOW < certificate.not_valid_after_utc


def test_keys_are_for_their_owner_only_and_made_once(pki: Path) -> None:
    before = {path.name: path.read_bytes() for path in pki.iterdir()}
    assert {path.stat().st_mode & 0o777 for path in pki.glob("*.key")} == {0o600}

    ensure_pki(pki, identities("here"), _NOW)

    assert {path.name: path.read_bytes() for path in pki.iterdir()} == before


def test_a_half_made_pki_is_made_anew(tmp_path: Path) -> None:
    ensure_pki(tmp_path, identities("here"), _NOW)
    (tmp_path / "complete").unlink()
    (tmp_path / "admin.key").unlink()

    ensure_pki(tmp_path, identities("here"), _NOW)

    _certificate(tmp_path, "admin").verify_directly_issued_by(_certificate(tmp_path, "ca"))
    assert (tmp_path / "admin.key").exists()


def test_a_kubeconfig_holds_all_that_a_client_needs() -> None:
    made = json.loads(kubeconfig("demo", "https://127.0.0.1:1", Credentials(b"ca", b"certificate", b"key")))
    assert made["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    assert base64.b64decode(made["users"][0]["user"]["client-key-data"]) == b"key"
    assert made["current-context"] == made["contexts"][0]["name"] == "demo"


def test_the_configuration_files_are_well_formed() -> None:
    files = configuration_files("here", "group")
    runtime = tomllib.loads(files[CONFIGURATION / "containerd.toml"])
    kubelet = json.loads(files[CONFIGURATION / "kubelet.json"])

    assert runtime["plugins"]["io.containerd.grpc.v1.cri"]["restrict_oom_score_adj"] is True
    assert kubelet["cgroupRoot"] == "/group"
    assert kubelet["maxPods"] >= 110
    assert kubelet["enforceNodeAllocatable"] == []
    assert all(path.is_relative_to(HOME) for path in files)


def test_outside_names_are_answered_in_a_block_of_their_own() -> None:
    corefile = configuration_files("here", "group")[CONFIGURATION / "Corefile"]
    cluster_block, outside_block = corefile.split("\n. {")
    assert "kubernetes cluster.local" in cluster_block
    assert "template" not in cluster_block
    assert "NXDOMAIN" in outside_block


def _components() -> list[Component]:
    programs = Programs(lambda name: Path("/programs") / name, Path("/programs/coredns"))
    return [*foundation(), *control_plane(programs), *node_services(programs, "here")]


def test_the_api_server_is_reachable_for_pods_and_knows_itself_to_kubelet() -> None:
    (command,) = (component.command for component in _components() if component.name == "kube-apiserver")
    assert "--bind-address=0.0.0.0" in command
    assert "--authorization-mode=Node,RBAC" in command
    assert any(flag.startswith("--kubelet-client-certificate=") for flag in command)


def test_every_component_is_expected_of_a_healthy_cluster() -> None:
    assert {component.name for component in _components()} | {"node", "relay"} == COMPONENT_NAMES


def test_the_initial_objects_name_each_other_rightly() -> None:
    objects = initial_objects()
    roles = {item["metadata"]["name"] for item in objects if item["kind"] == "ClusterRole"}
    bound = {item["roleRef"]["name"] for item in objects if item["kind"] == "ClusterRoleBinding"}
    assert bound == roles | {"system:kubelet-api-admin"}


def test_the_default_storage_class_binds_at_once() -> None:
    (storage_class,) = (item for item in initial_objects() if item["kind"] == "StorageClass")
    assert storage_class["volumeBindingMode"] == "Immediate"
    assert storage_class["reclaimPolicy"] == "Delete"
    assert storage_class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"


def test_this_process_is_recognized_and_no_other() -> None:
    this = identify(os.getpid())
    assert this is not None
    assert this.is_alive
    assert not Process(this.pid, this.start_ticks + 1).is_alive


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n"), max_size=15))
def test_a_process_name_cannot_confuse_the_parser(name: str) -> None:
    fields = ["S", *(str(number) for number in range(4, 30))]
    assert parse_stat(f"7 ({name}) {' '.join(fields)}") == ("S", 22)


def _sleeper(tmp_path: Path) -> Process:
    return spawn(["/bin/sleep", "60"], tmp_path / "sleep.log")


def test_a_spawned_process_lives_until_killed_and_leaves_no_zombie(tmp_path: Path) -> None:
    process = _sleeper(tmp_path)
    record = tmp_path / "run" / "sleep.json"
    process.save(record)

    assert load_process(record) == process
    assert process.is_alive
    assert os.getsid(process.pid) == process.pid
    process.kill()
    assert wait_until_dead(process, 5)
    assert not Path(f"/proc/{process.pid}").exists()


def test_a_reused_process_id_is_never_killed(tmp_path: Path) -> None:
    process = _sleeper(tmp_path)
    try:
        Process(process.pid, process.start_ticks - 1).kill()
        assert process.is_alive
        assert not wait_until_dead(process, 0)
    finally:
        process.kill()
        wait_until_dead(process, 5)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', "null"])
def test_a_damaged_record_is_no_process(tmp_path: Path, content: str) -> None:
    record = tmp_path / "broken.json"
    record.write_text(content)
    assert load_process(record) is None
    assert load_process(tmp_path / "missing.json") is None


def test_waiting_ends_at_once_when_a_process_dies_and_shows_its_log(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = (
        "import pathlib, sys, time\n"
        "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)\n"
        "sys.exit('cannot listen: address in use')"
    )
    process = spawn([sys.executable, "-c", program, str(told)], tmp_path / "etcd.log")
    told.touch()

    with pytest.raises(ComponentFailedError, match=r"(?s)etcd ended.*etcd\.log.*address in use"):
        wait_for("the store", lambda: False, Watched({"etcd": process}, tmp_path), 30)


def test_waiting_ends_when_the_time_is_over(tmp_path: Path) -> None:
    with pytest.raises(NotReadyError, match="the store not ready"):
        wait_for("the store", lambda: False, Watched({}, tmp_path), 0)


def test_a_cluster_keeps_its_port(layout: Layout) -> None:
    with listen(layout) as first:
        port = first.getsockname()[1]
    with listen(layout) as second:
        assert second.getsockname()[1] == port == read_port(layout)


def test_a_taken_port_is_passed_over_at_first_and_an_error_later(layout: Layout) -> None:
    with listen(layout) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(PrerequisiteError, match=str(port)):
            listen(layout)
        layout.port_file.unlink()
        with listen(layout) as other:
            assert other.getsockname()[1] != port


def test_a_damaged_port_file_is_an_error(layout: Layout) -> None:
    layout.port_file.write_text("https")
    with pytest.raises(PrerequisiteError, match="no port number"):
        read_port(layout)


@given(st.text())
def test_ports_lie_below_those_of_outgoing_connections(seed: str) -> None:
    ports = candidate_ports(seed)
    assert all(20000 <= port < 30000 for port in ports)
    assert len(set(ports)) == len(ports)


def test_control_groups_are_found_in_every_hierarchy() -> None:
    mounts = (
        "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\nproc /proc proc rw"
    )
    assert hierarchies(mounts) == (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/unified"))


@pytest.fixture
def upstream() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


async def _relayed(upstream: socket.socket, sent: bytes) -> bytes:
    """Send through the relay to a server that answers, after the client's end, with what it got, reversed."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read())[::-1])
        await writer.drain()
        writer.close()

    async with (
        await asyncio.start_server(answer, sock=upstream),
        await asyncio.start_server(relay.serve_client, "127.0.0.1", 0) as front,
    ):
        reader, writer = await asyncio.open_connection(*front.sockets[0].getsockname())
        writer.write(sent)
        writer.write_eof()
        received = await reader.read()
        writer.close()
        return received


def test_the_relay_passes_bytes_and_half_closes_both_ways(
    upstream: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "API_PORT", upstream.getsockname()[1])
    sent = bytes(range(256)) * 4096
    assert asyncio.run(_relayed(upstream, sent)) == sent[::-1]


def test_the_relay_hangs_up_when_nobody_answers(upstream: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "API_PORT", upstream.getsockname()[1])
    upstream.close()

    async def received() -> bytes:
        async with await asyncio.start_server(relay.serve_client, "127.0.0.1", 0) as front:
            reader, writer = await asyncio.open_connection(*front.sockets[0].getsockname())
            data = await reader.read()
            writer.close()
            return data

    assert asyncio.run(received()) == b""


def test_a_cluster_that_never_ran_is_down_and_says_how_to_start_it(layout: Layout) -> None:
    never = Cluster(layout)
    assert not never.status().is_healthy
    with pytest.raises(NotRunningError, match="up unit"):
        never.inside("true")
    never.down()
    never.down(everything=True)
    assert not layout.directory.exists()


def test_a_status_is_healthy_only_when_nothing_is_missing() -> None:
    alive = dict.fromkeys(COMPONENT_NAMES, True)
    assert Status(alive, serves=True, node_is_ready=True).is_healthy
    assert not Status(alive | {"kubelet": False}, serves=True, node_is_ready=True).is_healthy
    assert not Status({}, serves=True, node_is_ready=True).is_healthy
    assert not Status(alive, serves=True, node_is_ready=False).is_healthy


def test_the_status_names_what_ended() -> None:
    lines = status_lines(Status({"etcd": True, "kubelet": False}, serves=True, node_is_ready=False))
    assert [" ".join(line.split()) for line in lines] == [
        "etcd running",
        "kubelet ended",
        "API server ready",
        "node not ready",
    ]


def test_the_command_line_reports_errors_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "Not a name"]) == 1
    assert "no cluster name" in capsys.readouterr().err


def test_the_processes_inside_start_without_the_clients_of_the_tools() -> None:
    code = "import sys, tools.cluster.node, tools.cluster.relay; sys.exit('httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_kubeconfig_lies_in_the_clusters_directory() -> None:
    assert cluster("demo").kubeconfig.parts[-3:] == (".local", "demo", "kubeconfig")

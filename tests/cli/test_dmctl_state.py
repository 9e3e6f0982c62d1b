"""`dmctl state` with the real CLI, over a directory and over a bucket, with a fake API server for the cluster."""

from __future__ import annotations

import asyncio
import functools
import gzip
import itertools
import json
import re
import shlex
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from api.keys import LEADER_LEASE
from cli.command import main
from cli.state import commands
from cli.state.access import Access, open_states
from components import names
from components.desired import Owner
from components.platform.metadata import SYSTEM_NAMESPACE
from reconciler.driver.deployment import parse_deployment
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.lease import LeaderElector, LeasePolicy
from tests.fakes.apiserver import FakeApiServer
from tools.toolchain.builds import program_path

pytestmark = pytest.mark.cluster

DOCUMENT = Path(__file__).parents[2] / "docs" / "state.md"
PROVIDER_ID = "f7348d5a-e30a-4596-8b05-965c0ff36b26"
SHORT = LeasePolicy(duration=1.5, renew_deadline=1.0, retry=0.2)
FRAUD = Owner(namespace="shop", name="fraud", uid="1a2b3c4d-0000-4000-8000-000000000000")
GONE = Owner(namespace="shop", name="gone", uid="99999999-0000-4000-8000-000000000000")
STATES = ".pulumi/stacks/decisionmodel"
Put = Callable[[str, bytes], None]
Get = Callable[[str], bytes]
_numbers = itertools.count()


@dataclass
class Cluster:
    """A fake API server in a thread of its own."""

    kubeconfig: Path
    server: FakeApiServer
    loop: asyncio.AbstractEventLoop
    electors: list[asyncio.Task[Any]] = field(default_factory=list)

    def declare(self, *owners: Owner) -> None:
        for owner in owners:
            metadata = {"namespace": owner.namespace, "name": owner.name, "uid": owner.uid}
            model = {"kind": "DecisionModel", "metadata": metadata, "spec": {"model": "laya:en"}}
            self.server.put("decisionmodel.io/v1alpha1", "decisionmodels", model)

    def start_reconciler(self) -> None:
        """Let somebody hold the Lease and renew it."""
        asyncio.run_coroutine_threadsafe(self._lead(), self.loop).result(20)

    async def _lead(self) -> None:
        client = KubernetesClient.connect(field_manager="tests", kubeconfig=self.kubeconfig)
        elector = LeaderElector(client, SYSTEM_NAMESPACE, LEADER_LEASE, "some-pod_1", policy=SHORT)
        self.electors.append(self.loop.create_task(_elect(elector, client)))
        await elector.leading.wait()


async def _elect(elector: LeaderElector, client: KubernetesClient) -> None:
    try:
        await elector.run()
    finally:
        await client.close()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(20)

    server = FakeApiServer()
    wait(server.__aenter__())
    cluster = Cluster(server.write_kubeconfig(tmp_path / "kubeconfig"), server, loop)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    monkeypatch.setattr(commands, "Access", functools.partial(Access, lease=SHORT))
    yield cluster
    for task in cluster.electors:
        loop.call_soon_threadsafe(task.cancel)
        wait(_ended(task))
    wait(server.__aexit__(None, None, None))
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def _ended(task: asyncio.Task[Any]) -> None:
    await asyncio.wait([task])


@dataclass(frozen=True)
class Backend:
    """A backend to work on, and its files."""

    url: str
    put: Put
    get: Get

    def make(self, *owners: Owner) -> None:
        """Make a sound stack for each."""

        async def work() -> None:
            with open_states(Access(backend=self.url, pulumi=program_path("pulumi"))) as states:
                for owner in owners:
                    stack = names.stack(owner)
                    await states.create(stack)
                    await states.replace(stack, parse_deployment(json.dumps(sound(owner)).encode()))

        asyncio.run(work())

    def alter(self, owner: Owner, change: Callable[[dict[str, Any]], None]) -> None:
        """Change a state as it is stored, as no CLI would."""
        path = f"{STATES}/{names.stack(owner)}.json.gz"
        document = json.loads(gzip.decompress(self.get(path)))
        change(document["checkpoint"]["latest"])
        self.put(path, gzip.compress(json.dumps(document).encode()))

    def lock(self, owner: Owner, host: str) -> None:
        """Leave a lock behind."""
        lock = {"pid": 7, "username": "decisionmodel", "hostname": host, "timestamp": "2026-05-01T10:00:00Z"}
        self.put(f".pulumi/locks/organization/decisionmodel/{names.stack(owner)}/a.json", json.dumps(lock).encode())


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"{host}:{port}"
    server.stop()


@pytest.fixture(params=["directory", "bucket"])
def backend(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backend:
    made = directory(tmp_path / "state") if request.param == "directory" else bucket(request, monkeypatch)
    monkeypatch.setenv("PULUMI_BACKEND_URL", made.url)
    monkeypatch.setenv("PULUMI_COMMAND", str(program_path("pulumi")))
    monkeypatch.chdir(tmp_path)
    return made


only_a_directory = pytest.mark.parametrize("backend", ["directory"], indirect=True)
"""For what does not depend on the kind of backend."""


def directory(root: Path) -> Backend:
    root.mkdir()

    def put(path: str, data: bytes) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)

    return Backend(f"file://{root}", put, lambda path: (root / path).read_bytes())


def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    endpoint, name = request.getfixturevalue("s3"), f"states-{next(_numbers)}"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    urllib.request.urlopen(urllib.request.Request(f"http://{endpoint}/{name}", method="PUT")).close()
    client = boto3.client("s3", endpoint_url=f"http://{endpoint}", region_name="us-east-1")
    return Backend(
        f"s3://{name}?endpoint={endpoint}&disableSSL=true&s3ForcePathStyle=true&region=us-east-1",
        lambda path, data: client.put_object(Bucket=name, Key=path, Body=data) and None,
        lambda path: bytes(client.get_object(Bucket=name, Key=path)["Body"].read()),
    )


def sound(owner: Owner) -> dict[str, Any]:
    """Return the exported state of a model's stack with one Service."""
    stack = names.stack(owner)
    prefix = f"urn:pulumi:{stack}::decisionmodel::"
    root = {
        "urn": f"{prefix}pulumi:pulumi:Stack::decisionmodel-{stack}",
        "custom": False,
        "type": "pulumi:pulumi:Stack",
    }
    provider = {
        "urn": f"{prefix}pulumi:providers:kubernetes::kubernetes",
        "custom": True,
        "id": PROVIDER_ID,
        "type": "pulumi:providers:kubernetes",
        "inputs": {
            "clusterIdentifier": "decisionmodel",
            "enableConfigMapMutable": "true",
            "namespace": owner.namespace,
            "version": "4.25.0",
        },
        "parent": root["urn"],
    }
    model = {
        "urn": f"{prefix}decisionmodel:index:Model::{owner.name}",
        "custom": False,
        "type": "decisionmodel:index:Model",
        "parent": root["urn"],
    }
    metadata = {
        "name": owner.name,
        "namespace": owner.namespace,
        "ownerReferences": [names.owner_reference(owner)],
    }
    object_ = {"apiVersion": "v1", "kind": "Service", "metadata": metadata}
    service = {
        "urn": f"{prefix}decisionmodel:index:Model$kubernetes:core/v1:Service::{owner.name}",
        "custom": True,
        "id": f"{owner.namespace}/{owner.name}",
        "type": "kubernetes:core/v1:Service",
        "inputs": object_,
        "outputs": object_,
        "parent": model["urn"],
        "provider": f"{provider['urn']}::{PROVIDER_ID}",
    }
    manifest = {"time": "2026-05-01T10:00:00Z"}
    return {"version": 3, "deployment": {"manifest": manifest, "resources": [root, provider, model, service]}}


@dataclass(frozen=True)
class Answer:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def dmctl(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    def run(*arguments: str) -> Answer:
        code = main(["state", *arguments])
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return run


def found(answer: Answer) -> list[tuple[str, str]]:
    return sorted((each["stack"], each["code"]) for each in answer.json["findings"])


def changed(answer: Answer) -> list[tuple[str, str]]:
    return [(each["stack"], each["change"]) for each in answer.json["changes"]]


def test_sound_states_are_listed_checked_exported_and_restored(
    backend: Backend, cluster: Cluster, dmctl: Callable[..., Answer]
) -> None:
    backend.make(FRAUD)
    cluster.declare(FRAUD)
    stack = names.stack(FRAUD)
    (listed,) = dmctl("ls", "-o", "json").json["stacks"]
    assert listed.pop("updated")
    assert listed == {"stack": stack, "decisionModel": "shop/fraud", "exists": True, "resources": 4, "locks": 0}
    assert dmctl("check", "-o", "json").json == {"checked": 1, "findings": []}
    assert dmctl("export", stack, "--file", "state.json").code == 0
    exported = Path("state.json").read_bytes()
    assert len(parse_deployment(exported).resources) == 4
    assert dmctl("restore", stack, "state.json", "--dry-run").code == 1
    restored = dmctl("restore", stack, "state.json", "-o", "json")
    assert (restored.code, changed(restored)) == (0, [(stack, "Restore")])
    assert (
        json.loads(dmctl("export", stack).out)["deployment"]["resources"]
        == json.loads(exported)["deployment"]["resources"]
    )


def test_damage_of_every_kind_is_found_and_repaired(
    backend: Backend, cluster: Cluster, dmctl: Callable[..., Answer]
) -> None:
    broken = Owner(namespace="shop", name="broken", uid="22222222-0000-4000-8000-000000000000")
    backend.make(FRAUD, GONE)
    cluster.declare(FRAUD, broken)
    foreign = {
        **sound(FRAUD)["deployment"]["resources"][3],
        "urn": sound(FRAUD)["deployment"]["resources"][3]["urn"] + "x",
    }
    foreign["inputs"] = {"metadata": {"namespace": "shop", "ownerReferences": [names.owner_reference(GONE)]}}

    def damage(latest: dict[str, Any]) -> None:
        latest["resources"].append(foreign)
        latest["pending_operations"] = [{"resource": {**foreign, "urn": foreign["urn"] + "y"}, "type": "creating"}]

    backend.alter(FRAUD, damage)
    backend.lock(FRAUD, "pod-that-is-gone")
    backend.put(f"{STATES}/{names.stack(broken)}.json.gz", b"garbage")

    fraud, gone, unreadable = names.stack(FRAUD), names.stack(GONE), names.stack(broken)
    checked = dmctl("check", "-o", "json")
    assert checked.code == 1
    assert found(checked) == [
        (unreadable, "Unreadable"),
        (fraud, "ForeignResource"),
        (fraud, "PendingOperation"),
        (fraud, "StaleLock"),
        (gone, "Orphaned"),
    ]
    everything = [(fraud, "Unlock"), (fraud, "TakeOut"), (unreadable, "StartAnew")]
    planned = dmctl("repair", fraud, unreadable, "--dry-run", "-o", "json")
    assert (planned.code, changed(planned)) == (1, everything)
    assert found(dmctl("check", "-o", "json")) == found(checked), "a dry run changes nothing"
    repaired = dmctl("repair", fraud, unreadable, "-o", "json")
    assert (repaired.code, changed(repaired)) == (0, everything)
    assert Path(f"{unreadable}.json.gz.unreadable").read_bytes() == b"garbage"
    assert found(dmctl("check", "-o", "json")) == [(gone, "Orphaned")]
    assert json.loads(dmctl("export", fraud).out)["deployment"]["resources"] == sound(FRAUD)["deployment"]["resources"]

    assert (dmctl("sweep", "--dry-run").code, dmctl("sweep").code) == (1, 0)
    assert dmctl("check", "-o", "json").json == {"checked": 2, "findings": []}


def add_exec_plugin(latest: dict[str, Any]) -> None:
    provider = json.loads(json.dumps(latest["resources"][1]))
    provider["urn"] += "2"
    provider["inputs"]["kubeconfig"] = '{"users": [{"user": {"exec": {"command": "sh"}}}]}'
    latest["resources"].append(provider)


def test_a_state_that_was_tampered_with_is_found_shown_and_started_anew(
    backend: Backend, cluster: Cluster, dmctl: Callable[..., Answer]
) -> None:
    backend.make(FRAUD)
    cluster.declare(FRAUD)
    stack = names.stack(FRAUD)
    backend.alter(FRAUD, add_exec_plugin)
    stored = backend.get(f"{STATES}/{stack}.json.gz")
    (finding,) = dmctl("check", "-o", "json").json["findings"]
    assert (finding["code"], finding["urn"]) == ("Tampered", None)
    assert "provider" in finding["message"]
    exported = dmctl("export", stack, "--file", "suspect.json")
    assert exported.code == 0
    assert "exec" in Path("suspect.json").read_text()
    refused = dmctl("restore", stack, "suspect.json", "-o", "json")
    assert (refused.code, found(refused)) == (1, [(stack, "Tampered")])
    repaired = dmctl("repair", stack, "-o", "json")
    assert (repaired.code, changed(repaired)) == (0, [(stack, "StartAnew")])
    assert Path(f"{stack}.json.gz.unreadable").read_bytes() == stored
    assert dmctl("check", "-o", "json").json == {"checked": 1, "findings": []}


@only_a_directory
def test_a_backend_that_is_laid_out_otherwise_is_shown_to_nobody(
    backend: Backend, cluster: Cluster, dmctl: Callable[..., Answer]
) -> None:
    backend.make(FRAUD)
    cluster.declare(FRAUD)
    backend.put(".pulumi/meta.yaml", b"version: 0\n")
    for command in (("check",), ("repair", names.stack(FRAUD))):
        refused = dmctl(*command)
        assert refused.code == 3
        assert ".pulumi/meta.yaml has to say `version: 1`" in refused.err


@only_a_directory
def test_nothing_is_written_while_a_reconciler_works(
    backend: Backend, cluster: Cluster, dmctl: Callable[..., Answer]
) -> None:
    backend.make(FRAUD)
    cluster.declare(FRAUD)
    stack = names.stack(FRAUD)
    backend.lock(FRAUD, "some-pod")
    dmctl("export", stack, "--file", "state.json")
    cluster.start_reconciler()
    assert dmctl("check").code == 0, "the leader's own lock is no finding"
    for command in (("repair", stack), ("restore", stack, "state.json"), ("sweep",)):
        refused = dmctl(*command)
        assert refused.code == 3
        assert "some-pod holds the Lease" in refused.err
        assert "--replicas=0" in refused.err
    locked = dmctl("restore", stack, "state.json", "--force")
    assert locked.code == 3
    assert "`dmctl state repair`" in locked.err
    assert dmctl("repair", stack, "--force").code == 0
    assert dmctl("restore", stack, "state.json", "--force").code == 0


@only_a_directory
def test_a_state_of_somebody_else_is_never_restored(
    backend: Backend, cluster: Cluster, dmctl: Callable[..., Answer]
) -> None:
    backend.make(FRAUD, GONE)
    dmctl("export", names.stack(GONE), "--file", "other.json")
    refused = dmctl("restore", names.stack(FRAUD), "other.json", "-o", "json")
    assert refused.code == 1
    assert {code for _, code in found(refused)} == {"ForeignResource"}


@only_a_directory
def test_a_backend_of_another_cluster_is_not_swept(
    backend: Backend, cluster: Cluster, dmctl: Callable[..., Answer]
) -> None:
    backend.make(GONE)
    refused = dmctl("sweep")
    assert refused.code == 3
    assert "belong together" in refused.err
    assert dmctl("sweep", "--force").code == 0
    assert dmctl("ls", "--offline", "-o", "json").json == {"stacks": []}


@only_a_directory
def test_only_what_is_watched_is_judged(backend: Backend, cluster: Cluster, dmctl: Callable[..., Answer]) -> None:
    elsewhere = Owner(namespace="bank", name="fraud", uid="33333333-0000-4000-8000-000000000000")
    backend.make(FRAUD, GONE, elsewhere)
    cluster.declare(FRAUD)
    # What the account of a reconciler with Roles in its namespaces may not.
    cluster.server.fail(403, matches=lambda request: request.path.endswith("v1alpha1/decisionmodels"))
    assert dmctl("check").code == 3
    shop = ("--watch-namespaces", "shop")
    assert {each["decisionModel"] for each in dmctl("ls", "-o", "json", *shop).json["stacks"]} == {
        "shop/fraud",
        "shop/gone",
    }
    assert found(dmctl("check", "-o", "json", *shop)) == [(names.stack(GONE), "Orphaned")]
    assert changed(dmctl("sweep", "-o", "json", *shop)) == [(names.stack(GONE), "Drop")]
    refused = dmctl("check", names.stack(elsewhere), *shop)
    assert refused.code == 3
    assert "leaves out" in refused.err


def test_errors_end_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dmctl: Callable[..., Answer]
) -> None:
    monkeypatch.setenv("PULUMI_COMMAND", str(program_path("pulumi")))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    empty = f"--backend=file://{tmp_path}"
    for arguments, step in (
        (("export", "no.such.stack", empty), "`dmctl state ls` lists"),
        (("ls", "--offline", "--backend=s3://states?endpoint=127.0.0.1:9&disableSSL=true&region=eu"), "AWS_*"),
        (("ls", empty), "--offline asks no cluster"),
        (("ls", "--offline", "--backend=postgres://user:canary@host/db"), "file:// or s3://"),
    ):
        answer = dmctl(*arguments)
        assert answer.code == 3
        assert step in answer.err
        assert "canary" not in answer.err


@only_a_directory
def test_the_commands_in_the_document_do_what_it_says(
    backend: Backend, cluster: Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    backend.make(FRAUD, GONE)
    cluster.declare(FRAUD)
    shown = re.findall(r"^\$ dmctl (state .*)$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert {line.split()[1] for line in shown} == {"ls", "check", "export", "repair", "restore", "sweep"}
    for line in shown:
        # What it writes is this test's, and nobody else's.
        code = main(shlex.split(line.replace("/tmp", str(tmp_path))))
        assert code in {0, 1}, (line, capsys.readouterr().err)

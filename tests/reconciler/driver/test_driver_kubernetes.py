"""The driver with the real engine, provider and API server: conflicts, drift, kills, lost clusters."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from lightkube import Client, KubeConfig
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace

from reconciler.driver import DriverSettings, FailureReason, Operation, OperationKind, Outcome, StackDriver
from reconciler.driver.sessions import read_stat
from tests.reconciler.driver import driver_programs
from tests.reconciler.driver.conftest import descendants, kill_if_running, make_operation, until
from tests.reconciler.driver.driver_programs import Cluster
from tests.reconciler.driver.sessions import with_driver
from tools.toolchain.builds import program_path
from tools.toolchain.plugins import prepare_pulumi_home

pytestmark = pytest.mark.cluster

Answer = TypeVar("Answer")
STACK = "shop.fraud.1a2b3c4d"


class Bench:
    """A namespace, a client that sees it, and a driver's surroundings."""

    def __init__(self, client: Client, cluster: Cluster, settings: DriverSettings) -> None:
        self.client = client
        self.cluster = cluster
        self.settings = settings

    def run(self, use: Callable[[StackDriver], Coroutine[Any, Any, Answer]]) -> Answer:
        return asyncio.run(with_driver(self.settings, use))

    def operation(self, count: int, value: str = "1", kind: OperationKind = OperationKind.UP) -> Operation:
        program = partial(driver_programs.declare_config_maps, self.cluster, count, value)
        return make_operation(kind, program=program, deadline_seconds=60)

    def config_maps(self) -> dict[str, str]:
        """`key` of each ConfigMap that a program declared."""
        found = self.client.list(ConfigMap, namespace=self.cluster.namespace)
        return {
            str(item.metadata.name): (item.data or {})["key"]
            for item in found
            if item.metadata and str(item.metadata.name).startswith("settings-")
        }


@pytest.fixture
def bench(kubeconfig: Path, tmp_path: Path) -> Iterator[Bench]:
    namespace = f"driver-{uuid4().hex[:8]}"
    home = tmp_path / "home"
    prepare_pulumi_home(home)
    (tmp_path / "state").mkdir()
    settings = DriverSettings(
        pulumi=program_path("pulumi"),
        pulumi_home=home,
        backend_url=f"file://{tmp_path}/state",
        work_directory=tmp_path / "work",
        workers=1,
    )
    with Client(config=KubeConfig.from_file(str(kubeconfig))) as client:
        client.create(Namespace(metadata=ObjectMeta(name=namespace)))
        yield Bench(client, Cluster(str(kubeconfig), namespace), settings)
        client.delete(Namespace, namespace)


def reason_of(outcome: Outcome) -> FailureReason | None:
    return outcome.failure.reason if outcome.failure else None


def running(command: str) -> int | None:
    """A process of that name below this one."""
    stats = [read_stat(pid) for pid in descendants()]
    found = [stat.pid for stat in stats if stat and stat.command.startswith(command[:15]) and stat.state != "Z"]
    return found[0] if found else None


def test_create_change_nothing_and_destroy(bench: Bench) -> None:
    async def use(driver: StackDriver) -> None:
        created = await driver.run(bench.operation(2))
        assert (created.failure, created.changes) == (None, {"create": 4})
        assert (await driver.run(bench.operation(2))).changes == {"same": 4}
        changed = await driver.run(bench.operation(2, "2"))
        assert {change.changed_paths for change in changed.resources} == {("data.key",)}
        assert bench.config_maps() == {"settings-0": "2", "settings-1": "2"}
        assert (await driver.run(make_operation(OperationKind.DESTROY))).failure is None
        assert bench.config_maps() == {}

    bench.run(use)


def test_only_a_refresh_repairs_drift(bench: Bench) -> None:
    async def use(driver: StackDriver) -> None:
        await driver.run(bench.operation(2))
        bench.client.delete(ConfigMap, "settings-1", namespace=bench.cluster.namespace)
        assert (await driver.run(bench.operation(2))).changes == {"same": 4}
        repaired = await driver.run(bench.operation(2, kind=OperationKind.REFRESH_UP))
        assert [(change.name, change.op) for change in repaired.resources] == [("settings-1", "create")]
        assert set(bench.config_maps()) == {"settings-0", "settings-1"}

    bench.run(use)


def test_removal_leaves_the_objects(bench: Bench) -> None:
    async def use(driver: StackDriver) -> None:
        await driver.run(bench.operation(1))
        assert (await driver.run(make_operation(OperationKind.REMOVE))).failure is None
        assert await driver.stacks() == ()

    bench.run(use)
    assert set(bench.config_maps()) == {"settings-0"}


def test_a_field_of_another_manager_is_a_conflict(bench: Bench) -> None:
    foreign = ConfigMap(
        metadata=ObjectMeta(name="settings-0", namespace=bench.cluster.namespace), data={"key": "theirs"}
    )
    bench.client.create(foreign)
    outcome = bench.run(lambda driver: driver.run(bench.operation(1)))
    assert outcome.failure is not None
    assert outcome.failure.reason is FailureReason.API_CONFLICT
    assert outcome.failure.urn is not None
    assert outcome.failure.urn.endswith("::settings-0")
    assert bench.config_maps() == {"settings-0": "theirs"}


def test_an_invalid_object_carries_the_servers_message(bench: Bench) -> None:
    operation = make_operation(program=partial(driver_programs.declare_invalid_service, bench.cluster))
    outcome = bench.run(lambda driver: driver.run(operation))
    assert outcome.failure is not None
    assert outcome.failure.reason is FailureReason.INVALID_OBJECT
    assert "spec.ports[0].name: Required value" in outcome.failure.message
    assert "help with" not in outcome.failure.message


def test_an_api_server_that_is_gone_is_unreachable(bench: Bench, tmp_path: Path) -> None:
    gone = tmp_path / "gone.yaml"
    gone.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:9'}}]\n"
        "users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    program = partial(driver_programs.declare_config_maps, Cluster(str(gone), "default"), 1)
    outcome = bench.run(lambda driver: driver.run(make_operation(program=program)))
    assert reason_of(outcome) is FailureReason.UNREACHABLE


@pytest.mark.parametrize("victim", ["pulumi", "pulumi-resource-kubernetes"])
@pytest.mark.parametrize("seed", range(4))
def test_a_kill_at_any_moment_leaves_no_process_and_converges_next(bench: Bench, victim: str, seed: int) -> None:
    delay = random.Random(seed).uniform(0, 0.8)  # noqa: S311 -- a repeatable spread of moments

    async def use(driver: StackDriver) -> Outcome:
        operation = asyncio.create_task(driver.run(bench.operation(12)))
        await until(lambda: operation.done() or running("pulumi-resource-kubernetes") is not None, seconds=60)
        await asyncio.sleep(delay)
        cli, provider = running("pulumi"), running("pulumi-resource-kubernetes")
        target = cli if victim == "pulumi" else provider
        kill_if_running(target)
        await operation
        assert running("pulumi") is None
        return await driver.run(bench.operation(12))

    outcome = bench.run(use)
    assert outcome.failure is None
    assert len(bench.config_maps()) == 12

"""The life of a controller process: what it waits for, how it works, and the order in which it ends."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from reconciler.kernel.background import BackgroundTasks, TaskKey
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import Conflict, Unavailable
from reconciler.kernel.events import EventRecorder, ObjectReference
from reconciler.kernel.health import BindAddress, HttpServer, check_route
from reconciler.kernel.lease import LeaderElector, LeadershipLost, LeasePolicy
from reconciler.kernel.metrics import (
    QueueMetrics,
    ReconcileMetrics,
    ReflectorCollector,
    dropped_events_metric,
    leader_metric,
)
from reconciler.kernel.queue import WorkQueue
from reconciler.kernel.reflector import Reflector
from reconciler.kernel.resources import ObjectKey, Resource, object_key
from reconciler.kernel.retry import BackoffPolicy
from reconciler.kernel.runner import Runner
from reconciler.kernel.store import Store
from reconciler.kernel.timing import REAL_TIME
from reconciler.kernel.workers import Workers
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.waiting import until

pytestmark = pytest.mark.anyio

THINGS = Resource("example.io", "v1", "things", "Thing")
KEY = ObjectKey("ns", "a")
QUICK_LEASE = LeasePolicy(duration=2.0, renew_deadline=1.5, retry=0.02, look=0.02)


def thing(name: str, size: int = 1) -> dict[str, Any]:
    return {"kind": "Thing", "metadata": {"name": name, "namespace": "ns"}, "spec": {"size": size}}


@dataclass
class Plant:
    """A whole controller over one kind, with everything it did."""

    client: KubernetesClient
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    passes: list[ObjectKey] = field(default_factory=list)
    journal: list[str] = field(default_factory=list)
    reconcile: Callable[[ObjectKey], Awaitable[float | None]] | None = None
    elector: LeaderElector | None = None

    def __post_init__(self) -> None:
        metrics = QueueMetrics(self.registry, "thing")
        backoff = BackoffPolicy(base=0.01, cap=0.02, jitter=0.2)
        self.queue: WorkQueue[ObjectKey] = WorkQueue(backoff=backoff, observer=metrics)
        metrics.bind(self.queue)
        self.store = Store()
        self.store.on_change(lambda old, new: self.queue.add(object_key(new or old or {})))
        self.reflector = Reflector(self.client, THINGS, self.store)
        self.background = BackgroundTasks({"probe": 4, "operation": 2}, self.queue.add)
        self.events = EventRecorder(
            self.client, controller="tests", instance="pod-0", on_drop=dropped_events_metric(self.registry)
        )
        self.registry.register(ReflectorCollector([self.reflector], REAL_TIME.clock))
        self.runner = Runner(
            workers=Workers(reconcile=self._pass, queue=self.queue, metrics=ReconcileMetrics(self.registry, "thing")),
            reflectors=[self.reflector],
            background=self.background,
            events=self.events,
            elector=self.elector,
            drained_kinds=frozenset({"operation"}),
            drain_seconds=5.0,
            last_writes=self._last_writes,
        )

    async def _pass(self, key: ObjectKey) -> float | None:
        self.passes.append(key)
        return await self.reconcile(key) if self.reconcile else None

    async def _last_writes(self) -> None:
        self.journal.append("last writes")

    def value(self, name: str, /, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
def plant(client: KubernetesClient) -> Plant:
    return Plant(client)


@pytest.fixture
async def start() -> AsyncIterator[Callable[[Plant], asyncio.Task[None]]]:
    tasks: list[asyncio.Task[None]] = []

    def begin(plant: Plant) -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(plant.runner.run()))
        return tasks[-1]

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


Start = Callable[[Plant], asyncio.Task[None]]


async def test_every_object_is_reconciled_and_again_when_it_changes(
    server: FakeApiServer, plant: Plant, start: Start
) -> None:
    for name in "abc":
        server.put("example.io/v1", "things", thing(name))
    start(plant)
    await until(lambda: len(plant.passes) == 3)
    server.put("example.io/v1", "things", thing("a", size=2))
    server.remove("example.io/v1", "things", "ns", "b")
    await until(lambda: len(plant.passes) == 5)
    assert sorted(key.name for key in plant.passes) == ["a", "a", "b", "b", "c"]
    assert plant.value("controller_runtime_reconcile_total", controller="thing", result="success") == 5
    assert plant.value("workqueue_adds_total", name="thing") == 8  # The first three twice: they were spread.
    assert plant.value("workqueue_depth", name="thing") == 0
    assert plant.value("reflector_objects", resource="things.example.io", namespace="") == 2
    assert plant.value("reflector_connected", resource="things.example.io", namespace="") == 1


async def test_a_requested_requeue_comes_never_late(server: FakeApiServer, plant: Plant, start: Start) -> None:
    times: list[float] = []

    async def again(_: ObjectKey) -> float | None:
        times.append(REAL_TIME.clock())
        return 0.1 if len(times) < 4 else None

    plant.reconcile = again
    server.put("example.io/v1", "things", thing("a"))
    start(plant)
    await until(lambda: len(times) == 4)
    assert times[3] - times[0] >= 3 * 0.1 * 0.9
    assert plant.value("controller_runtime_reconcile_total", controller="thing", result="requeue_after") == 3


@pytest.mark.parametrize(
    ("error", "level"),
    [(Conflict("changed"), "INFO"), (Unavailable("down"), "WARNING"), (ZeroDivisionError("bug"), "ERROR")],
)
async def test_a_failing_pass_is_logged_counted_and_tried_again(
    server: FakeApiServer,
    plant: Plant,
    start: Start,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    level: str,
) -> None:
    caplog.set_level("INFO")

    async def fail_twice(_: ObjectKey) -> None:
        if len(plant.passes) <= 2:
            raise error

    plant.reconcile = fail_twice
    server.put("example.io/v1", "things", thing("a"))
    start(plant)
    await until(lambda: len(plant.passes) == 3)
    await until(lambda: plant.value("controller_runtime_reconcile_errors_total", controller="thing") == 2)
    assert plant.value("workqueue_retries_total", name="thing") == 2
    assert [record.levelname for record in caplog.records if record.name.endswith("workers")] == [level, level]
    assert plant.queue.failures(KEY) == 0


async def test_one_stuck_pass_does_not_hold_up_the_others(server: FakeApiServer, plant: Plant, start: Start) -> None:
    async def stick(key: ObjectKey) -> None:
        if key == KEY:
            await asyncio.Event().wait()

    plant.reconcile = stick
    server.put("example.io/v1", "things", thing("a"))
    start(plant)
    await until(lambda: plant.passes == [KEY])
    for number in range(20):
        server.put("example.io/v1", "things", thing(f"t{number}"))
    await until(lambda: len(plant.passes) == 21)
    assert (plant.value("workqueue_longest_running_processor_seconds", name="thing") or 0) > 0
    assert plant.value("controller_runtime_active_workers", controller="thing") == 1


async def test_the_first_round_is_spread(server: FakeApiServer, plant: Plant, start: Start) -> None:
    for number in range(50):
        server.put("example.io/v1", "things", thing(f"t{number}"))
    times: list[float] = []

    async def note(_: ObjectKey) -> None:
        times.append(REAL_TIME.clock())

    plant.reconcile = note
    start(plant)
    await until(lambda: len(times) == 50)
    assert 0.2 < times[-1] - times[0] < 5.0


async def test_a_signal_ends_it_in_order_and_releases_the_lease(
    server: FakeApiServer, client: KubernetesClient, start: Start
) -> None:
    elector = LeaderElector(client, "system", "controller", "one", policy=QUICK_LEASE)
    plant = Plant(client, elector=elector)
    finish = asyncio.Event()

    async def probe() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            plant.journal.append("probe cancelled")

    async def operation() -> None:
        await finish.wait()
        plant.journal.append("operation done")

    server.put("example.io/v1", "things", thing("a"))
    running = start(plant)
    await until(lambda: plant.passes)
    plant.background.start(TaskKey(KEY, "probe"), probe)
    plant.background.start(TaskKey(KEY, "operation"), operation)
    plant.events.record(ObjectReference.of(plant.store.get(KEY) or {}), "Normal", "Seen", "ok")
    assert not list(plant.runner.readiness_problems())
    await until(elector.leading.is_set)
    os.kill(os.getpid(), signal.SIGTERM)
    await until(lambda: plant.journal == ["probe cancelled"])
    assert list(plant.runner.readiness_problems()) == ["stopping"]
    held = server.object("coordination.k8s.io/v1", "leases", "system", "controller") or {}
    assert held["spec"]["holderIdentity"] == "one"
    finish.set()
    await asyncio.wait_for(running, 5)
    assert plant.journal == ["probe cancelled", "operation done", "last writes"]
    released = server.object("coordination.k8s.io/v1", "leases", "system", "controller") or {}
    assert released["spec"]["holderIdentity"] == ""
    assert len(server.objects("events.k8s.io/v1", "events")) == 1


async def test_a_follower_does_not_work_and_stops_when_told(
    server: FakeApiServer, client: KubernetesClient, start: Start
) -> None:
    lease = {"kind": "Lease", "metadata": {"name": "controller", "namespace": "system"}}
    server.put("coordination.k8s.io/v1", "leases", {**lease, "spec": {"holderIdentity": "other"}})
    server.put("example.io/v1", "things", thing("a"))
    policy = replace(QUICK_LEASE, duration=60.0)
    plant = Plant(client, elector=LeaderElector(client, "system", "controller", "one", policy=policy))
    running = start(plant)
    await until(lambda: plant.reflector.status.synced)
    await until(lambda: not list(plant.runner.readiness_problems()))
    plant.runner.stop()
    await asyncio.wait_for(running, 5)
    assert not plant.passes
    assert not server.writes


async def test_the_loss_of_the_lease_ends_the_process(
    server: FakeApiServer, client: KubernetesClient, start: Start
) -> None:
    registry = CollectorRegistry()
    elector = LeaderElector(
        client, "system", "controller", "one", policy=QUICK_LEASE, on_change=leader_metric(registry, "controller")
    )
    plant = Plant(client, registry=registry, elector=elector)
    server.put("example.io/v1", "things", thing("a"))
    running = start(plant)
    await until(lambda: plant.passes)
    assert plant.value("leader_election_master_status", name="controller") == 1
    cancelled = asyncio.Event()

    async def operation() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    plant.background.start(TaskKey(KEY, "operation"), operation)
    lease = {"kind": "Lease", "metadata": {"name": "controller", "namespace": "system"}}
    server.put("coordination.k8s.io/v1", "leases", {**lease, "spec": {"holderIdentity": "two"}})
    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(running, 5)
    assert caught.group_contains(LeadershipLost)
    assert cancelled.is_set()
    assert not plant.journal
    assert plant.value("leader_election_master_status", name="controller") == 0


async def test_a_crash_of_any_part_ends_the_process(server: FakeApiServer, plant: Plant, start: Start) -> None:
    def break_down(*_: object) -> None:
        raise ZeroDivisionError("a bug in a listener")

    plant.store.on_change(break_down)
    server.put("example.io/v1", "things", thing("a"))
    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(start(plant), 5)
    assert caught.group_contains(ZeroDivisionError)


async def test_health_is_told_over_http_until_the_end(server: FakeApiServer, plant: Plant, start: Start) -> None:
    endpoint = HttpServer(BindAddress("127.0.0.1", 0), {"/readyz": check_route(plant.runner.readiness_problems)})
    plant.runner.servers = [endpoint]
    fault = server.fail(403)
    running = start(plant)
    await until(endpoint.listening.is_set)
    assert await _status(endpoint.port) == 503
    server.faults.remove(fault)
    await until(lambda: plant.reflector.status.synced)
    assert await _status(endpoint.port) == 200
    plant.runner.stop()
    await asyncio.wait_for(running, 5)


async def test_only_a_connected_and_silent_watch_is_unhealthy(plant: Plant) -> None:
    status = plant.reflector.status
    status.connected, status.last_contact = True, REAL_TIME.clock() - 200
    assert list(plant.runner.liveness_problems()) == ["things.example.io in all namespaces silent for 200 s"]
    status.connected = False
    assert not list(plant.runner.liveness_problems())


async def _status(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])

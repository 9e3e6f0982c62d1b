"""The Lease is kept from a thread: through a busy loop, but not for a dead one."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.lease import LeaderElector, LeadershipLost, LeasePolicy
from reconciler.kernel.lease_thread import LeaseThread, Patience
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.waiting import until

pytestmark = pytest.mark.anyio

POLICY = LeasePolicy(duration=1.5, renew_deadline=1.0, retry=0.05, look=0.05)


class Elsewhere:
    """An API server in a thread of its own: the loop of the test may be busy."""

    def __init__(self, directory: Path) -> None:
        self.server = FakeApiServer()
        self.kubeconfig = directory / "kubeconfig"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.call(self.server.__aenter__())
        self.server.write_kubeconfig(self.kubeconfig)

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def client(self) -> KubernetesClient:
        return KubernetesClient.connect(field_manager="tests", kubeconfig=self.kubeconfig)

    @property
    def spec(self) -> dict[str, Any]:
        found = self.server.object("coordination.k8s.io/v1", "leases", "system", "controller")
        assert found is not None
        spec: dict[str, Any] = found["spec"]
        return spec

    def close(self) -> None:
        self.call(self.server.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    server = Elsewhere(tmp_path)
    yield server
    server.close()


def make(elsewhere: Elsewhere, **options: Any) -> LeaseThread:
    return LeaseThread(elsewhere.client(), "system", "controller", "me", **{"policy": POLICY, **options})


@asynccontextmanager
async def leading(election: LeaseThread) -> AsyncIterator[asyncio.Task[Any]]:
    running = asyncio.create_task(election.run())
    await asyncio.wait_for(election.leading.wait(), 10)
    try:
        yield running
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError, LeadershipLost):
            await running
        await election.close()


def busy(seconds: float, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Keep the loop from everything else, as a validation of something large does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        meanwhile()
        time.sleep(0.01)


async def test_a_busy_loop_keeps_the_lease(elsewhere: Elsewhere) -> None:
    async with leading(make(elsewhere)) as running:
        renewals: set[str] = set()
        busy(3 * POLICY.duration, lambda: renewals.add(elsewhere.spec["renewTime"]))
        assert len(renewals) > 10
        await asyncio.sleep(0.05)
        assert not running.done()


async def test_without_a_thread_it_would_be_lost(elsewhere: Elsewhere) -> None:
    client = elsewhere.client()
    elector = LeaderElector(client, "system", "controller", "me", policy=POLICY)
    running = asyncio.create_task(elector.run())
    await elector.leading.wait()
    busy(3 * POLICY.duration)
    with pytest.raises(LeadershipLost):
        await asyncio.wait_for(running, 10)
    await client.close()


async def test_a_dead_loop_loses_it_and_is_ended(elsewhere: Elsewhere) -> None:
    deaf: list[float] = []
    election = make(
        elsewhere, patience=Patience(silence=1.0, hearing=0.2), on_deaf=lambda: deaf.append(time.monotonic())
    )
    async with leading(election) as running:
        started = time.monotonic()
        renewals: dict[str, float] = {}
        busy(4.0, lambda: renewals.setdefault(elsewhere.spec["renewTime"], time.monotonic()))
        assert max(renewals.values()) < started + 2.5, "the thread stops renewing"
        assert len(deaf) == 1
        assert deaf[0] < max(renewals.values()) + POLICY.duration, "before another process begins"
        with pytest.raises(LeadershipLost, match="no sign of life"):
            await running


async def test_a_loop_that_hears_of_the_loss_ends_by_itself(elsewhere: Elsewhere) -> None:
    deaf: list[bool] = []
    told: list[bool] = []
    election = make(elsewhere, patience=Patience(hearing=0.1), on_deaf=lambda: deaf.append(True), on_change=told.append)
    async with leading(election) as running:

        async def taken() -> None:
            metadata = {"name": "controller", "namespace": "system"}
            obj = {"kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": "another"}}
            elsewhere.server.put("coordination.k8s.io/v1", "leases", obj)

        elsewhere.call(taken())
        with pytest.raises(LeadershipLost, match="another"):
            await asyncio.wait_for(running, 10)
        assert not election.leading.is_set()
        await asyncio.sleep(0.3)
        assert deaf == []
        assert told == [True, False]


async def test_a_release_gives_it_up_and_leaves_no_thread(elsewhere: Elsewhere) -> None:
    election = make(elsewhere)
    running = asyncio.create_task(election.run())
    await election.leading.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await election.release()
    assert elsewhere.spec["holderIdentity"] == ""
    assert not election.leading.is_set()
    await election.close()
    await until(lambda: "lease" not in {each.name for each in threading.enumerate()})


async def test_one_that_never_ran_can_be_closed(elsewhere: Elsewhere) -> None:
    election = make(elsewhere)
    await election.release()
    await election.close()

"""Leader election: one leader at a time, judged by our own clock, and an end when the Lease is lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.lease import LeaderElector, LeadershipLost, LeasePolicy
from reconciler.kernel.retry import RetryPolicy
from reconciler.kernel.timing import REAL_TIME
from tests.fakes.apiserver import FakeApiServer, Request
from tests.fakes.waiting import until

pytestmark = pytest.mark.anyio

QUICK = LeasePolicy(duration=2.0, renew_deadline=1.5, retry=0.02, look=0.02, jitter=0.2)
PATIENT = LeasePolicy(duration=15.0, renew_deadline=10.0, retry=0.01, look=0.01, jitter=0.2)


@pytest.fixture(autouse=True)
def impatient(client: KubernetesClient) -> None:
    client._policy = RetryPolicy(attempts=1)


def make(client: KubernetesClient, identity: str, **options: Any) -> LeaderElector:
    return LeaderElector(client, "system", "controller", identity, **{"policy": QUICK, **options})


def lease(server: FakeApiServer) -> dict[str, Any]:
    found = server.object("coordination.k8s.io/v1", "leases", "system", "controller")
    assert found is not None
    return found


def renewed_since(server: FakeApiServer, version: str) -> bool:
    return bool(lease(server)["metadata"]["resourceVersion"] != version)


async def asked_twice(server: FakeApiServer) -> None:
    """Wait until a candidate has certainly looked at the Lease as it is now."""
    asked = len(server.requests)
    await until(lambda: len(server.requests) >= asked + 2)


class Skew:
    """A clock that can be put forward."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.timing = replace(REAL_TIME, clock=lambda: REAL_TIME.clock() + self.seconds)


def put_lease(server: FakeApiServer, holder: str, **spec: Any) -> None:
    metadata = {"name": "controller", "namespace": "system"}
    obj = {"kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": holder, **spec}}
    server.put("coordination.k8s.io/v1", "leases", obj)


@asynccontextmanager
async def running(*electors: LeaderElector) -> AsyncIterator[list[asyncio.Task[Any]]]:
    tasks = [asyncio.create_task(elector.run()) for elector in electors]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, LeadershipLost):
                await task


async def test_the_first_candidate_creates_the_lease_and_renews_it(
    server: FakeApiServer, client: KubernetesClient
) -> None:
    told: list[bool] = []
    elector = make(client, "one", on_change=told.append)
    async with running(elector):
        await until(elector.leading.is_set)
        spec = lease(server)["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("one", 0)
        await until(lambda: lease(server)["spec"]["renewTime"] > spec["renewTime"])
        assert lease(server)["spec"]["acquireTime"] == spec["acquireTime"]
    assert told == [True]


async def test_of_many_candidates_one_leads(server: FakeApiServer, client: KubernetesClient) -> None:
    electors = [make(client, f"candidate-{number}") for number in range(5)]
    async with running(*electors):
        await until(lambda: any(elector.leading.is_set() for elector in electors))
        for _ in range(3):
            version = lease(server)["metadata"]["resourceVersion"]
            await until(partial(renewed_since, server, version))
            assert sum(elector.leading.is_set() for elector in electors) == 1


async def test_who_waits_looks_at_its_own_pace(server: FakeApiServer, client: KubernetesClient) -> None:
    put_lease(server, "other")
    elector = make(client, "one", policy=replace(QUICK, retry=3600.0))
    async with running(elector):
        await asked_twice(server)
        put_lease(server, "")
        await until(elector.leading.is_set)


@pytest.mark.parametrize("renewed", ["1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z", None])
async def test_expiry_is_judged_by_how_long_we_saw_no_change(
    server: FakeApiServer, client: KubernetesClient, renewed: str | None
) -> None:
    spec = {"leaseDurationSeconds": 3600} | ({} if renewed is None else {"renewTime": renewed})
    put_lease(server, "other", **spec)
    skew = Skew()
    elector = make(client, "one", policy=PATIENT, timing=skew.timing)
    async with running(elector):
        await asked_twice(server)
        skew.seconds += PATIENT.duration - 1
        await asked_twice(server)
        assert not elector.leading.is_set()
        skew.seconds += 1
        await until(elector.leading.is_set)
    assert lease(server)["spec"]["leaseTransitions"] == 1


async def test_a_lease_that_keeps_changing_is_never_taken(server: FakeApiServer, client: KubernetesClient) -> None:
    put_lease(server, "other")
    skew = Skew()
    elector = make(client, "one", policy=PATIENT, timing=skew.timing)
    async with running(elector):
        for number in range(10):
            put_lease(server, "other", leaseTransitions=number)
            await asked_twice(server)
            skew.seconds += PATIENT.duration - 1
        assert not elector.leading.is_set()


async def test_a_released_lease_is_taken_at_once(server: FakeApiServer, client: KubernetesClient) -> None:
    first, second = make(client, "one"), make(client, "two", policy=replace(QUICK, duration=60.0))
    async with running(first):
        await until(first.leading.is_set)
    await first.release()
    spec = lease(server)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
    assert not first.leading.is_set()
    async with running(second):
        await until(second.leading.is_set)


async def test_who_does_not_lead_releases_nothing(server: FakeApiServer, client: KubernetesClient) -> None:
    await make(client, "one").release()
    assert not server.writes


async def test_a_release_that_fails_is_only_logged(
    server: FakeApiServer, client: KubernetesClient, caplog: pytest.LogCaptureFixture
) -> None:
    elector = make(client, "one")
    async with running(elector):
        await until(elector.leading.is_set)
    server.fail(503)
    await elector.release()
    assert "expire instead" in caplog.text


async def test_another_holder_ends_the_leader(server: FakeApiServer, client: KubernetesClient) -> None:
    told: list[bool] = []
    elector = make(client, "one", on_change=told.append)
    async with running(elector) as [task]:
        await until(elector.leading.is_set)
        put_lease(server, "two")
        with pytest.raises(LeadershipLost, match="held by two"):
            await asyncio.wait_for(task, 5)
    assert told == [True, False]


def _refuse(server: FakeApiServer) -> None:
    server.fail(503)


def _hang(server: FakeApiServer) -> None:
    server.hang()


@pytest.mark.parametrize("break_it", [_refuse, _hang])
async def test_a_lease_that_cannot_be_renewed_in_time_ends_the_leader(
    server: FakeApiServer, client: KubernetesClient, break_it: Callable[[FakeApiServer], None]
) -> None:
    elector = make(client, "one")
    async with running(elector) as [task]:
        await until(elector.leading.is_set)
        break_it(server)
        with pytest.raises(LeadershipLost, match="not renewed"):
            await asyncio.wait_for(task, 5)


@pytest.mark.parametrize(("attempt", "lost_after"), [(0.0, 10.0), (5.0, 10.0), (8.0, 11.0)])
async def test_a_leader_ends_with_its_deadline_and_not_a_pause_later(
    server: FakeApiServer, client: KubernetesClient, attempt: float, lost_after: float
) -> None:
    skew = Skew()

    async def sleep(seconds: float) -> None:
        skew.seconds += seconds
        await asyncio.sleep(0)

    def renewal_takes_its_time(request: Request) -> bool:
        skew.seconds += attempt if request.method == "PUT" else 0.0
        return request.method == "PUT"

    server.fail(503, matches=renewal_takes_its_time)
    timing = replace(REAL_TIME, clock=lambda: skew.seconds, sleep=sleep)
    elector = make(client, "one", policy=replace(PATIENT, retry=3.0, jitter=0.0), timing=timing)
    async with running(elector) as [task]:
        with pytest.raises(LeadershipLost, match="not renewed"):
            await asyncio.wait_for(task, 5)
    assert skew.seconds == pytest.approx(lost_after)


async def test_a_look_that_took_long_costs_nothing_of_the_lease_it_led_to(
    server: FakeApiServer, client: KubernetesClient
) -> None:
    skew = Skew()

    def takes_its_time(request: Request) -> bool:
        if request.method == "GET":
            skew.seconds += 2 * QUICK.renew_deadline
        return False

    server.fail(500, matches=takes_its_time)
    elector = make(client, "one", timing=skew.timing)
    async with running(elector) as [task]:
        await until(elector.leading.is_set)
        taken = lease(server)["metadata"]["resourceVersion"]
        await until(lambda: task.done() or renewed_since(server, taken))
        assert not task.done()


async def test_a_lease_that_takes_too_long_to_take_is_taken_again(
    server: FakeApiServer, client: KubernetesClient
) -> None:
    server.hang(times=1, matches=lambda request: request.method == "POST")
    elector = make(client, "one")
    async with running(elector) as [task]:
        await until(elector.leading.is_set)
        taken = lease(server)["metadata"]["resourceVersion"]
        await until(lambda: task.done() or renewed_since(server, taken))
        assert not task.done()


async def test_a_short_outage_is_survived(server: FakeApiServer, client: KubernetesClient) -> None:
    elector = make(client, "one")
    async with running(elector) as [task]:
        await until(elector.leading.is_set)
        fault = server.fail(503, times=3)
        await until(lambda: fault.remaining == 0)
        renewed = lease(server)["spec"]["renewTime"]
        await until(lambda: lease(server)["spec"]["renewTime"] > renewed)
        assert not task.done()


async def test_an_annotated_lease_is_still_ours(server: FakeApiServer, client: KubernetesClient) -> None:
    elector = make(client, "one")
    async with running(elector) as [task]:
        await until(elector.leading.is_set)
        changed = lease(server)
        annotated = {**changed, "metadata": {**changed["metadata"], "annotations": {"note": "x"}}}
        server.put("coordination.k8s.io/v1", "leases", annotated)
        renewed = lease(server)["spec"]["renewTime"]
        await until(lambda: lease(server)["spec"]["renewTime"] > renewed)
        assert lease(server)["metadata"]["annotations"] == {"note": "x"}
        assert not task.done()


async def test_a_deleted_lease_is_created_again(server: FakeApiServer, client: KubernetesClient) -> None:
    elector = make(client, "one")
    async with running(elector) as [task]:
        await until(elector.leading.is_set)
        server.remove("coordination.k8s.io/v1", "leases", "system", "controller")
        await until(lambda: server.object("coordination.k8s.io/v1", "leases", "system", "controller"))
        assert not task.done()


async def test_a_leader_whose_clock_jumped_past_the_deadline_ends(
    server: FakeApiServer, client: KubernetesClient
) -> None:
    """As after a loop that was blocked, or a machine that slept."""
    skew = Skew()
    elector = make(client, "one", timing=skew.timing)
    async with running(elector) as [task]:
        await until(elector.leading.is_set)
        skew.seconds = 60.0
        with pytest.raises(LeadershipLost):
            await asyncio.wait_for(task, 5)

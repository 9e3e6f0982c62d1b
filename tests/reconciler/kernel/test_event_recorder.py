"""Events: what the server gets, what is put together, and what is dropped."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.events import EventRecorder, ObjectReference, TokenBucket
from reconciler.kernel.retry import RetryPolicy
from reconciler.kernel.timing import REAL_TIME
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.waiting import until

pytestmark = pytest.mark.anyio

MODEL = ObjectReference("example.io/v1", "Model", "ns", "model", "uid-1", "7")


class Bench:
    """A recorder with a clock of its own, and what it dropped."""

    def __init__(self, client: KubernetesClient) -> None:
        self.now = 1000.0
        self.dropped: Counter[str] = Counter()
        self.recorder = EventRecorder(
            client,
            controller="tests-controller",
            instance="pod-0",
            on_drop=lambda reason: self.dropped.update([reason]),
            timing=replace(REAL_TIME, clock=lambda: self.now),
        )

    async def flush(self) -> None:
        await self.recorder.flush(5)


@pytest.fixture
async def bench(client: KubernetesClient) -> AsyncIterator[Bench]:
    client._policy = RetryPolicy(attempts=1)
    bench = Bench(client)
    task = asyncio.create_task(bench.recorder.run())
    yield bench
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def events(server: FakeApiServer, namespace: str = "ns") -> list[dict[str, Any]]:
    return server.objects("events.k8s.io/v1", "events", namespace)


async def test_an_event_has_every_field_the_server_asks_for(server: FakeApiServer, bench: Bench) -> None:
    bench.recorder.record(MODEL, "Normal", "Promoted", "revision abc serves")
    await bench.flush()
    [event] = events(server)
    assert event["metadata"]["name"].startswith("model.")
    assert {name: event[name] for name in ("reportingController", "reportingInstance", "action", "reason", "type")} == {
        "reportingController": "tests-controller",
        "reportingInstance": "pod-0",
        "action": "Promoted",
        "reason": "Promoted",
        "type": "Normal",
    }
    assert event["regarding"]["uid"] == "uid-1"
    assert event["note"] == "revision abc serves"
    assert len(event["eventTime"]) == len("2026-01-01T00:00:00.000000Z")


async def test_equal_events_become_a_series(server: FakeApiServer, bench: Bench) -> None:
    for _ in range(3):
        bench.recorder.record(MODEL, "Warning", "Failed", "no")
        bench.now += 60
        await bench.flush()
    bench.recorder.record(MODEL, "Warning", "Failed", "another note")
    await bench.flush()
    counts = {event["note"]: event.get("series", {}).get("count") for event in events(server)}
    assert counts == {"no": 3, "another note": None}


async def test_an_event_with_an_occasion_exists_once_whoever_tells_it(
    server: FakeApiServer, bench: Bench, client: KubernetesClient
) -> None:
    successor = Bench(client)
    sending = asyncio.create_task(successor.recorder.run())
    for teller in (bench, bench, successor):
        teller.recorder.record(MODEL, "Normal", "Promoted", "revision abc serves", occasion="12:00")
        await teller.flush()
    bench.recorder.record(MODEL, "Normal", "Promoted", "revision abc serves", occasion="13:00")
    await bench.flush()
    assert [event.get("series") for event in events(server)] == [None, None]
    assert bench.dropped == successor.dropped == Counter()
    sending.cancel()


async def test_events_recorded_before_the_first_is_sent_are_not_lost(server: FakeApiServer, bench: Bench) -> None:
    for _ in range(5):
        bench.recorder.record(MODEL, "Warning", "Failed", "no")
    await bench.flush()
    assert [event["series"]["count"] for event in events(server)] == [5]
    assert [request.method for request in server.writes] == ["POST", "PATCH"]


async def test_a_series_ends_after_six_minutes_of_silence(server: FakeApiServer, bench: Bench) -> None:
    for _ in range(2):
        bench.recorder.record(MODEL, "Normal", "Cached", "done")
        await bench.flush()
        bench.now += 361
    assert len(events(server)) == 2


@pytest.mark.parametrize("letter", ["x", "ß", "語", "🙂"])
async def test_a_long_note_is_cut_to_what_the_server_takes(server: FakeApiServer, bench: Bench, letter: str) -> None:
    bench.recorder.record(MODEL, "Normal", "Long", letter * 2000)
    await bench.flush()
    [event] = events(server)
    assert 1015 < len(event["note"].encode()) <= 1024
    assert event["note"].endswith(letter + "...")


async def test_long_names_and_cluster_scoped_objects_are_fine(server: FakeApiServer, bench: Bench) -> None:
    bench.recorder.record(replace(MODEL, namespace="", name="n" * 253), "Normal", "Fine", "ok")
    await bench.flush()
    [event] = events(server, "default")
    assert len(event["metadata"]["name"]) == 253
    assert "namespace" not in event["regarding"]


@pytest.mark.parametrize("status", [403, 404, 409, 422, 503])
async def test_what_the_server_refuses_is_dropped_and_counted(server: FakeApiServer, bench: Bench, status: int) -> None:
    server.fail(status, times=1)
    bench.recorder.record(MODEL, "Normal", "Refused", "first")
    await bench.flush()
    assert (events(server), bench.dropped.total()) == ([], 1)
    bench.recorder.record(MODEL, "Normal", "Refused", "first")
    await bench.flush()
    assert len(events(server)) == 1


async def test_an_expired_event_starts_a_new_series(server: FakeApiServer, bench: Bench) -> None:
    bench.recorder.record(MODEL, "Normal", "Cached", "done")
    await bench.flush()
    server.remove("events.k8s.io/v1", "events", "ns", events(server)[0]["metadata"]["name"])
    bench.recorder.record(MODEL, "Normal", "Cached", "done")
    await bench.flush()
    assert bench.dropped == {"NotFound": 1}
    bench.recorder.record(MODEL, "Normal", "Cached", "done")
    await bench.flush()
    assert len(events(server)) == 1


async def test_one_object_cannot_flood_the_server(server: FakeApiServer, bench: Bench) -> None:
    for number in range(100):
        bench.recorder.record(MODEL, "Normal", "Noise", str(number))
    bench.recorder.record(replace(MODEL, uid="uid-2", name="quiet"), "Normal", "Heard", "ok")
    await bench.flush()
    assert len(events(server)) == 26
    assert bench.dropped == {"RateLimited": 75}
    bench.now += 300
    bench.recorder.record(MODEL, "Normal", "Noise", "one more")
    await bench.flush()
    assert len(events(server)) == 27


async def test_a_stuck_server_never_holds_up_who_records(server: FakeApiServer, bench: Bench) -> None:
    server.hang()
    for number in range(2000):
        bench.recorder.record(replace(MODEL, uid=f"uid-{number}"), "Normal", "Stuck", "ok")
    await until(lambda: server.requests)
    await bench.recorder.flush(0.01)
    assert bench.dropped["QueueFull"] == 1000


def test_the_bucket_fills_up_to_its_burst() -> None:
    bucket = TokenBucket(burst=2, refill=10.0, tokens=2, at=0.0)
    assert [bucket.take(0.0) for _ in range(3)] == [True, True, False]
    assert [bucket.take(10.0) for _ in range(2)] == [True, False]
    assert [bucket.take(10_000.0) for _ in range(3)] == [True, True, False]


def test_a_reference_is_read_from_an_object() -> None:
    metadata = {"name": "model", "namespace": "ns", "uid": "uid-1", "resourceVersion": "7"}
    assert ObjectReference.of({"apiVersion": "example.io/v1", "kind": "Model", "metadata": metadata}) == MODEL

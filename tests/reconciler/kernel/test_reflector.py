"""The reflector against a fake API server on a real socket: each row of the study's fault table, and more."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from reconciler.kernel.client import PAGE_SIZE, KubernetesClient
from reconciler.kernel.reflector import DEFAULT_POLICY, Reflector, reflectors_for
from reconciler.kernel.resources import ObjectKey, Resource
from reconciler.kernel.retry import BackoffPolicy
from reconciler.kernel.store import Store
from reconciler.kernel.timing import REAL_TIME
from tests.fakes.apiserver import FakeApiServer, Request
from tests.fakes.apistore import ApiError
from tests.fakes.waiting import until

pytestmark = pytest.mark.anyio

PODS = Resource("", "v1", "pods", "Pod")
QUICK = replace(DEFAULT_POLICY, backoff=BackoffPolicy(base=0.01, cap=0.05, jitter=0.5))
KEY = ObjectKey("default", "a")


def pod(name: str, namespace: str = "default", **extra: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": name, "namespace": namespace, **extra}, "spec": {"node": "n1"}}


def touch(server: FakeApiServer, name: str, node: str) -> None:
    server.put("v1", "pods", {**pod(name), "spec": {"node": node}})


def names(store: Store) -> set[str]:
    return {obj["metadata"]["name"] for obj in store}


def lists(server: FakeApiServer) -> list[Request]:
    return [request for request in server.requests if request.is_list]


class Log:
    """Changes as a listener saw them: `+a`, `~a`, `-a`."""

    def __init__(self, store: Store) -> None:
        self.lines: list[str] = []
        store.on_change(self._changed)

    def _changed(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        sign = "+" if old is None else "-" if new is None else "~"
        self.lines.append(sign + (new or old or {})["metadata"]["name"])


@asynccontextmanager
async def running(*reflectors: Reflector) -> AsyncIterator[None]:
    """Run reflectors until they synced, then for as long as the block takes."""
    tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
    try:
        async with asyncio.timeout(10):
            for reflector in reflectors:
                await reflector.wait_until_synced()
        await until(lambda: all(reflector.status.connected for reflector in reflectors))
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.fixture
def store() -> Store:
    return Store()


def make(client: KubernetesClient, store: Store, **options: Any) -> Reflector:
    return Reflector(client, PODS, store, **{"policy": QUICK, **options})


async def test_mirrors_additions_changes_and_deletions(
    server: FakeApiServer, client: KubernetesClient, store: Store
) -> None:
    server.put("v1", "pods", pod("a"))
    log = Log(store)
    async with running(make(client, store)):
        touch(server, "b", "n1")
        touch(server, "a", "n2")
        server.remove("v1", "pods", "default", "b")
        await until(lambda: len(log.lines) == 4)
    assert log.lines == ["+a", "+b", "~a", "-b"]


async def test_lists_in_pages_without_a_version_and_watches_with_bookmarks(
    server: FakeApiServer, client: KubernetesClient, store: Store
) -> None:
    for number in range(PAGE_SIZE + 1):
        server.put("v1", "pods", pod(f"p{number}"))
    async with running(make(client, store)):
        assert len(store) == PAGE_SIZE + 1
    first, second, watch = server.requests
    assert first.query == {"limit": str(PAGE_SIZE)}
    assert second.query["continue"]
    assert watch.query["allowWatchBookmarks"] == "1"
    assert 240 <= int(watch.query["timeoutSeconds"]) <= 360


async def test_a_clean_close_is_no_error_and_resumes_without_a_list(
    server: FakeApiServer, client: KubernetesClient, store: Store
) -> None:
    reflector = make(client, store)
    async with running(reflector):
        server.close_streams()
        await until(lambda: server.watches == 0)
        touch(server, "late", "n1")
        await until(lambda: "late" in names(store))
    assert len(lists(server)) == 1


async def test_a_server_that_always_closes_at_once_is_not_called_in_a_loop(
    server: FakeApiServer, client: KubernetesClient, store: Store
) -> None:
    server.closes_watches_at_once = True
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    reflector = Reflector(client, PODS, store, timing=replace(REAL_TIME, sleep=sleep))
    async with running(reflector):
        await until(lambda: len(waits) >= 8)
    assert 0.25 <= waits[0] <= 0.75
    assert all(2.5 <= wait <= 7.5 for wait in waits[4:])
    assert len(lists(server)) == 1


@pytest.mark.parametrize("gone_as_status", [False, True], ids=["inside the stream", "as HTTP status"])
async def test_an_expired_version_relists_and_reports_what_was_deleted_meanwhile(
    server: FakeApiServer, client: KubernetesClient, store: Store, *, gone_as_status: bool
) -> None:
    server.gone_as_status = gone_as_status
    for name in ("kept", "changed", "deleted"):
        server.put("v1", "pods", pod(name))
    reflector = make(client, store)
    log = Log(store)
    async with running(reflector):
        del log.lines[:]
        await server.stop()
        touch(server, "changed", "n2")
        server.remove("v1", "pods", "default", "deleted")
        touch(server, "created", "n1")
        server.expire_history()
        await server.start()
        await until(lambda: len(log.lines) == 3)
    assert sorted(log.lines) == ["+created", "-deleted", "~changed"]
    assert reflector.status.relists == 2


async def test_a_repeated_410_backs_off(server: FakeApiServer, client: KubernetesClient, store: Store) -> None:
    async with running(make(client, store, policy=DEFAULT_POLICY)):
        server.fail(410, matches=lambda request: request.is_watch)
        asked = len(server.requests)
        server.close_streams()
        cpu = time.process_time()
        await asyncio.sleep(1.0)
        assert len(server.requests) - asked <= 8
        assert time.process_time() - cpu < 0.5


async def test_a_deletion_while_the_server_was_down_is_reported_from_history(
    server: FakeApiServer, client: KubernetesClient, store: Store
) -> None:
    server.put("v1", "pods", pod("a"))
    log = Log(store)
    async with running(make(client, store)):
        await server.stop()
        server.remove("v1", "pods", "default", "a")
        await server.start()
        await until(lambda: log.lines == ["+a", "-a"])
    assert len(lists(server)) == 1


async def test_a_server_that_is_down_costs_nothing_and_is_met_again(
    server: FakeApiServer, client: KubernetesClient, store: Store
) -> None:
    reflector = make(client, store, policy=DEFAULT_POLICY)
    async with running(reflector):
        await server.stop()
        await until(lambda: reflector.status.failures >= 1)
        assert not reflector.status.connected
        cpu = time.process_time()
        await until(lambda: reflector.status.failures >= 2)
        assert time.process_time() - cpu < 1.0
        await server.start()
        touch(server, "after", "n1")
        await until(lambda: "after" in names(store))


@pytest.mark.parametrize("status", [403, 429, 500, 503])
async def test_refusals_longer_than_any_retries_are_outlived_and_told_once(
    server: FakeApiServer, client: KubernetesClient, store: Store, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    reflector = make(client, store)
    async with running(reflector):
        fault = server.fail(status, matches=lambda request: request.is_watch)
        server.close_streams()
        await until(lambda: reflector.status.failures >= 8)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        server.faults.remove(fault)
        touch(server, "after", "n1")
        await until(lambda: "after" in names(store))
    assert len(lists(server)) == 1


async def test_a_refused_first_list_is_repeated(server: FakeApiServer, client: KubernetesClient, store: Store) -> None:
    server.put("v1", "pods", pod("a"))
    server.fail(403, times=3)
    async with running(make(client, store)):
        assert names(store) == {"a"}


async def test_a_dropped_connection_resumes_where_it_was(
    server: FakeApiServer, client: KubernetesClient, store: Store
) -> None:
    log = Log(store)
    async with running(make(client, store)):
        touch(server, "a", "n1")
        await until(lambda: log.lines == ["+a"])
        server.drop_streams()
        touch(server, "a", "n2")
        touch(server, "b", "n1")
        await until(lambda: len(log.lines) == 3)
    assert log.lines == ["+a", "~a", "+b"]
    assert len(lists(server)) == 1


async def test_a_silent_connection_is_given_up(
    server: FakeApiServer, client: KubernetesClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client._watch, "timeout", 0.1)
    async with running(make(client, store)):
        server.mute_streams()
        touch(server, "unseen", "n1")
        await until(lambda: "unseen" in names(store))


async def test_bookmarks_move_the_point_to_resume_from(
    server: FakeApiServer, client: KubernetesClient, store: Store
) -> None:
    reflector = make(client, store)
    async with running(reflector):
        server.put("v1", "configmaps", {"kind": "ConfigMap", "metadata": {"name": "other", "namespace": "default"}})
        server.expire_history()
        server.send_bookmarks()
        await until(lambda: store.observed("") == server.store.version)
        server.close_streams()
        await until(lambda: len([request for request in server.requests if request.is_watch]) == 2)
        touch(server, "a", "n1")
        await until(lambda: "a" in names(store))
    assert len(lists(server)) == 1


@pytest.mark.parametrize("how", ["watch", "list"])
async def test_the_same_name_with_another_uid_is_a_deletion_and_a_creation(
    server: FakeApiServer, client: KubernetesClient, store: Store, how: str
) -> None:
    server.put("v1", "pods", pod("a"))
    log = Log(store)
    async with running(make(client, store)):
        await server.stop()
        server.remove("v1", "pods", "default", "a")
        server.put("v1", "pods", pod("a"))
        if how == "list":
            server.expire_history()
        await server.start()
        await until(lambda: len(log.lines) == 3)
    assert log.lines == ["+a", "-a", "+a"]


async def test_another_error_inside_the_stream_backs_off_and_resumes(
    server: FakeApiServer, client: KubernetesClient, store: Store
) -> None:
    reflector = make(client, store)
    async with running(reflector):
        server.send_error(ApiError(500, "InternalError", "etcd is having a day"))
        touch(server, "a", "n1")
        await until(lambda: "a" in names(store))
    assert len(lists(server)) == 1


async def test_history_that_went_back_is_believed(
    server: FakeApiServer, client: KubernetesClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put("v1", "pods", pod("a", uid="u1"))
    server.put("v1", "pods", pod("lost"))
    monkeypatch.setattr(client._watch, "timeout", 0.2)
    log = Log(store)
    async with running(make(client, store)):
        del log.lines[:]
        await server.stop()
        server.remove("v1", "pods", "default", "lost")
        server.store.version = 500
        server.store.history.clear()
        server.put("v1", "pods", {**pod("a", uid="u1"), "spec": {"node": "restored"}})
        await server.start()
        await until(lambda: len(log.lines) >= 2)
        assert (store.get(KEY) or {})["spec"] == {"node": "restored"}
    assert log.lines == ["-lost", "~a"]


async def test_the_label_selector_keeps_others_out(
    server: FakeApiServer, client: KubernetesClient, store: Store
) -> None:
    server.put("v1", "pods", pod("ours", labels={"app": "x"}))
    server.put("v1", "pods", pod("theirs"))
    log = Log(store)
    async with running(make(client, store, label_selector="app")):
        server.put("v1", "pods", pod("ours", labels={}))
        await until(lambda: log.lines == ["+ours", "-ours"])
    assert not names(store)


async def test_several_namespaces_share_a_store(server: FakeApiServer, client: KubernetesClient, store: Store) -> None:
    for namespace in ("one", "two", "three"):
        server.put("v1", "pods", pod("a", namespace))
    reflectors = reflectors_for(client, PODS, store, ["one", "two"])
    async with running(*reflectors):
        assert sorted(store.keys()) == [("one", "a"), ("two", "a")]
    assert [reflector.namespace for reflector in reflectors_for(client, PODS, store, [])] == [""]


async def test_managed_fields_are_dropped(server: FakeApiServer, client: KubernetesClient, store: Store) -> None:
    server.put("v1", "pods", pod("a", managedFields=[{"manager": "kubelet"}]))
    async with running(make(client, store)):
        server.put("v1", "pods", pod("b", managedFields=[{"manager": "kubelet"}]))
        await until(lambda: len(store) == 2)
    assert all("managedFields" not in obj["metadata"] for obj in store)


async def test_objects_with_exotic_line_separators_arrive_whole(
    server: FakeApiServer, client: KubernetesClient, store: Store
) -> None:
    text = "one\u2028two\x85three\x0bfour"
    body = b'{"type":"ADDED","object":' + _raw_pod(text) + b"}\n"
    async with running(make(client, store)):
        for stream in server._streams:
            stream.lines.put_nowait(body)
        await until(lambda: "raw" in names(store))
    assert (store.get(ObjectKey("default", "raw")) or {})["metadata"]["annotations"] == {"text": text}


def _raw_pod(text: str) -> bytes:
    head = '{"metadata":{"name":"raw","namespace":"default","uid":"u","resourceVersion":"99999","annotations":{"text":"'
    return (head + text.replace("\x0b", "\\u000b") + '"}}}').encode()


async def test_an_unreadable_event_does_not_end_the_reflector(
    server: FakeApiServer, client: KubernetesClient, store: Store
) -> None:
    async with running(make(client, store)):
        for stream in server._streams:
            stream.lines.put_nowait(b'{"type":"ADDED","object":[]}\n')
        touch(server, "a", "n1")
        await until(lambda: "a" in names(store))


async def test_our_own_newer_write_survives_an_older_list_and_older_events(
    server: FakeApiServer, client: KubernetesClient, store: Store
) -> None:
    server.put("v1", "pods", pod("a", uid="u"))
    ours = {**pod("a", uid="u", resourceVersion="50000"), "spec": {"node": "ours"}}
    reflector = make(client, store)
    async with running(reflector):
        assert store.upsert_newer(ours)
        touch(server, "a", "older")
        touch(server, "b", "n1")
        await until(lambda: "b" in names(store))
        assert (store.get(KEY) or {})["spec"] == {"node": "ours"}
        created = ObjectKey("default", "created")
        assert store.upsert_newer(pod("created", uid="c", resourceVersion="50001"))
        server.expire_history()
        server.send_error(ApiError(410, "Expired", "too old"))
        await until(lambda: reflector.status.relists == 2)
        assert (store.get(KEY) or {})["spec"] == {"node": "ours"}
        assert store.get(created) is not None


async def test_an_old_deletion_spares_what_we_created_again(
    server: FakeApiServer, client: KubernetesClient, store: Store
) -> None:
    server.put("v1", "pods", pod("a", uid="old"))
    reflector = make(client, store)
    async with running(reflector):
        assert store.upsert_newer(pod("a", uid="new", resourceVersion="50000"))
        server.remove("v1", "pods", "default", "a")
        await until(lambda: reflector.status.events == 1)
        assert (store.get(KEY) or {})["metadata"]["uid"] == "new"

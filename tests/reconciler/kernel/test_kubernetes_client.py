"""The client against a fake API server: what is sent, what comes back, and how failures are told apart."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lightkube.config.kubeconfig import KubeConfig
from lightkube.config.models import Cluster, User

from reconciler.kernel.client import PAGE_SIZE, KubernetesClient
from reconciler.kernel.connection import Configuration, ConfigurationError, open_api_client, open_watch_client
from reconciler.kernel.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KubernetesError,
    NotFound,
    Unauthorized,
    Unavailable,
)
from reconciler.kernel.resources import ImpossibleNameError, Resource
from reconciler.kernel.retry import RetryPolicy, retry_after_seconds
from tests.fakes.apiserver import FakeApiServer

pytestmark = pytest.mark.anyio

PODS = Resource("", "v1", "pods", "Pod")
THINGS = Resource("example.io", "v1", "things", "Thing")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)


def thing(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"kind": "Thing", "metadata": {"name": name, "namespace": "ns"}, "spec": {"size": 1}, **fields}


@pytest.fixture
async def patient(client: KubernetesClient) -> tuple[KubernetesClient, list[float]]:
    """A client that notes its waits instead of waiting."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    client._timing = replace(client._timing, sleep=sleep, fraction=lambda: 0.5)
    return client, waits


async def test_an_object_lives_through_create_read_and_delete(client: KubernetesClient) -> None:
    assert await client.get(THINGS, "ns", "a") is None
    created = await client.create(THINGS, "ns", {"metadata": {"name": "a"}, "spec": {"size": 1}})
    assert created["kind"] == "Thing"
    assert await client.get(THINGS, "ns", "a") == created
    with pytest.raises(AlreadyExists):
        await client.create(THINGS, "ns", created)
    assert await client.delete(THINGS, "ns", "a")
    assert not await client.delete(THINGS, "ns", "a")


async def test_cluster_scoped_objects_need_no_namespace(client: KubernetesClient, server: FakeApiServer) -> None:
    await client.create(NODES, None, {"metadata": {"name": "n1"}})
    assert await client.get(NODES, None, "n1")
    assert server.requests[0].path == "/api/v1/nodes"


@pytest.mark.parametrize("field", ["uid", "resource_version"])
async def test_a_delete_with_a_stale_precondition_is_a_conflict(
    client: KubernetesClient, server: FakeApiServer, field: str
) -> None:
    live = server.put("example.io/v1", "things", thing())["metadata"]
    with pytest.raises(Conflict):
        await client.delete(THINGS, "ns", "a", **{field: "stale"})
    assert await client.delete(
        THINGS, "ns", "a", uid=live["uid"], resource_version=live["resourceVersion"], propagation="Background"
    )
    assert server.requests[-1].body["propagationPolicy"] == "Background"


async def test_a_list_reads_all_pages_and_names_kinds(client: KubernetesClient, server: FakeApiServer) -> None:
    for number in range(450):
        obj = thing(f"t{number}")
        del obj["kind"]
        server.put("example.io/v1", "things", obj)
    items = await client.list(THINGS)
    assert len({item["metadata"]["name"] for item in items}) == 450
    assert {item["kind"] for item in items} == {"Thing"}
    assert len(server.requests) == 450 / PAGE_SIZE


async def test_selectors_are_passed_on(client: KubernetesClient, server: FakeApiServer) -> None:
    server.put("example.io/v1", "things", thing("a"))
    labelled = thing("b")
    labelled["metadata"]["labels"] = {"app": "x"}
    server.put("example.io/v1", "things", labelled)
    assert [obj["metadata"]["name"] for obj in await client.list(THINGS, "ns", label_selector="app=x")] == ["b"]
    assert [obj["metadata"]["name"] for obj in await client.list(THINGS, field_selector="metadata.name=a")] == ["a"]


async def test_a_merge_patch_with_a_version_is_an_optimistic_lock(
    client: KubernetesClient, server: FakeApiServer
) -> None:
    version = server.put("example.io/v1", "things", thing())["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "status": {"phase": "Ready"}}
    patched = await client.merge_patch(THINGS, "ns", "a", patch, subresource="status")
    assert patched["status"] == {"phase": "Ready"}
    with pytest.raises(Conflict):
        await client.merge_patch(THINGS, "ns", "a", patch, subresource="status")


async def test_apply_keeps_the_conditions_of_others_and_an_identical_one_changes_nothing(
    client: KubernetesClient, server: FakeApiServer
) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}}
    uid = server.put("v1", "pods", {**pod, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    body = {
        "metadata": {"uid": uid["metadata"]["uid"]},
        "status": {"conditions": [{"type": "example.io/gate", "status": "True"}]},
    }
    applied = await client.apply(PODS, "ns", "p", body, subresource="status", field_manager="prober")
    assert [condition["type"] for condition in applied["status"]["conditions"]] == ["Ready", "example.io/gate"]
    assert server.requests[-1].query == {"fieldManager": "prober", "force": "true"}
    again = await client.apply(PODS, "ns", "p", body, subresource="status", field_manager="prober")
    assert again["metadata"]["resourceVersion"] == applied["metadata"]["resourceVersion"]
    body["status"] = {"conditions": []}
    without = await client.apply(PODS, "ns", "p", body, subresource="status", field_manager="prober")
    assert [condition["type"] for condition in without["status"]["conditions"]] == ["Ready"]


async def test_applying_to_what_is_gone_fails_when_the_uid_is_named(client: KubernetesClient) -> None:
    with pytest.raises(NotFound):
        await client.apply(PODS, "ns", "p", {"status": {}}, subresource="status")
    with pytest.raises(Conflict):
        await client.apply(PODS, "ns", "p", {"metadata": {"uid": "gone"}})
    assert (await client.apply(PODS, "ns", "p", {}))["metadata"]["name"] == "p"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, Invalid),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, Expired),
        (415, Invalid),
        (418, KubernetesError),
        (422, Invalid),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
async def test_each_status_has_its_class(
    patient: tuple[KubernetesClient, list[float]], server: FakeApiServer, status: int, expected: type[KubernetesError]
) -> None:
    server.fail(status)
    with pytest.raises(KubernetesError) as caught:
        await patient[0].create(THINGS, "ns", thing())
    assert type(caught.value) is expected
    assert caught.value.status == status
    assert caught.value.message == f"injected {status}"
    assert f"POST /apis/example.io/v1/namespaces/ns/things: {status}" in str(caught.value)


async def test_causes_are_kept(client: KubernetesClient, server: FakeApiServer) -> None:
    causes = {"causes": [{"reason": "NamespaceTerminating", "message": "being terminated", "field": "metadata"}]}
    body = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no", "details": causes}
    server.fail(403, body=json.dumps(body).encode())
    with pytest.raises(Forbidden) as caught:
        await client.create(THINGS, "ns", thing())
    assert caught.value.causes == ("NamespaceTerminating",)


@pytest.mark.parametrize("body", [b"<html>gateway</html>", b"", b"[]", b'{"code": "x"}', b"\xff\xfe"])
async def test_a_failure_that_is_no_status_is_still_told(
    client: KubernetesClient, server: FakeApiServer, body: bytes
) -> None:
    server.fail(403, body=body)
    with pytest.raises(Forbidden) as caught:
        await client.get(THINGS, "ns", "a")
    assert caught.value.message


@pytest.mark.parametrize("body", [b"<html>fine</html>", b"[]", b"{}", b'{"metadata": {}, "items": 3}'])
async def test_a_success_that_is_no_object_is_an_error(
    client: KubernetesClient, server: FakeApiServer, body: bytes
) -> None:
    server.fail(200, body=body)
    with pytest.raises(KubernetesError) as caught:
        await client.list(THINGS, "ns")
    assert caught.value.reason == "InvalidResponse"


async def test_overload_is_retried_as_long_as_the_server_asks(
    patient: tuple[KubernetesClient, list[float]], server: FakeApiServer
) -> None:
    client, waits = patient
    server.fail(429, times=1, retry_after=3)
    server.fail(503, times=1)
    await client.create(THINGS, "ns", thing())
    assert waits == [3.0, 0.5]


async def test_retries_are_bounded(patient: tuple[KubernetesClient, list[float]], server: FakeApiServer) -> None:
    client, waits = patient
    server.fail(503)
    with pytest.raises(Unavailable):
        await client.get(THINGS, "ns", "a")
    assert waits == [0.25, 0.5, 1.0]


async def test_a_server_that_asks_for_a_long_wait_is_not_waited_for(
    patient: tuple[KubernetesClient, list[float]], server: FakeApiServer
) -> None:
    client, waits = patient
    server.fail(429, retry_after=60)
    with pytest.raises(Unavailable) as caught:
        await client.get(THINGS, "ns", "a")
    assert (caught.value.retry_after, waits) == (60.0, [])


@pytest.mark.parametrize("status", [400, 403, 409, 422])
async def test_refusals_are_not_retried(client: KubernetesClient, server: FakeApiServer, status: int) -> None:
    server.fail(status)
    with pytest.raises(KubernetesError):
        await client.create(THINGS, "ns", thing())
    assert len(server.requests) == 1


async def test_a_refused_connection_is_unavailable(
    patient: tuple[KubernetesClient, list[float]], server: FakeApiServer
) -> None:
    await server.stop()
    with pytest.raises(Unavailable) as caught:
        await patient[0].get(THINGS, "ns", "a")
    assert (caught.value.status, caught.value.reason) == (0, "ConnectionFailed")


async def test_a_server_that_never_answers_is_left_in_time(client: KubernetesClient, server: FakeApiServer) -> None:
    client._policy = RetryPolicy(deadline=0.1)
    server.hang()
    with pytest.raises(Unavailable) as caught:
        await client.get(THINGS, "ns", "a")
    assert caught.value.reason == "Timeout"


async def test_a_rotated_token_is_read_again_after_a_401(server: FakeApiServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    chosen = KubeConfig.from_one(cluster=Cluster(server=server.url), user=User(token_file=str(token))).get()
    assert chosen is not None
    configuration = Configuration(chosen=chosen)
    api, watch = open_api_client(configuration, "tests"), open_watch_client(configuration, "tests")
    client = KubernetesClient(api, watch, field_manager="tests")
    server.token = "first"
    await client.create(THINGS, "ns", thing())
    server.token = "second"
    token.write_text("second")
    assert await client.get(THINGS, "ns", "a")
    token.unlink()
    server.token = "third"
    with pytest.raises(Unauthorized) as caught:
        await client.get(THINGS, "ns", "a")
    assert caught.value.reason == "CredentialsUnreadable"
    await client.close()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2fb"])
async def test_a_name_that_is_no_path_segment_is_never_sent(
    client: KubernetesClient, server: FakeApiServer, name: str
) -> None:
    assert await client.get(THINGS, "ns", name) is None, "nothing of that name can exist"
    with pytest.raises(ImpossibleNameError, match="cannot be the name"):
        await client.delete(THINGS, "ns", name)
    assert not server.requests


async def test_a_namespaced_object_without_a_namespace_is_a_bug(client: KubernetesClient) -> None:
    with pytest.raises(ValueError, match="needs a namespace"):
        await client.get(THINGS, None, "a")


def _missing(path: Path) -> None:
    path.unlink()


def _not_yaml(path: Path) -> None:
    path.write_text("{")


def _no_clusters(path: Path) -> None:
    path.write_text("{}")


def _no_user(path: Path) -> None:
    config = json.loads(path.read_text())
    del config["contexts"][0]["context"]["user"]
    path.write_text(json.dumps(config))


@pytest.mark.parametrize("spoil", [_missing, _not_yaml, _no_clusters, _no_user])
async def test_a_useless_kubeconfig_says_so(
    server: FakeApiServer, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    path = server.write_kubeconfig(tmp_path / "config")
    spoil(path)
    with pytest.raises(ConfigurationError):
        KubernetesClient.connect(field_manager="tests", kubeconfig=path)


async def test_outside_a_pod_there_is_no_service_account() -> None:
    with pytest.raises(ConfigurationError, match="service account"):
        KubernetesClient.connect(field_manager="tests")


@pytest.mark.parametrize(
    ("header", "seconds"), [(None, None), ("3", 3.0), ("soon", None), ("-1", None), ("٣", None), ("9" * 99, 86_400.0)]
)
def test_retry_after_is_read_with_care(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header) == seconds

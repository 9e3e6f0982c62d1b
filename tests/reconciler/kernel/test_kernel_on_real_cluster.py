"""What the kernel relies on, against a real API server: the fake one is only as good as this."""

import asyncio
import base64
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import AlreadyExists, Conflict, Invalid, KubernetesError, NotFound
from reconciler.kernel.events import EVENTS, EventRecorder, ObjectReference
from reconciler.kernel.lease import LEASES, LeaderElector, LeasePolicy
from reconciler.kernel.reflector import Reflector
from reconciler.kernel.resources import ObjectKey, Resource
from reconciler.kernel.retry import RetryPolicy
from reconciler.kernel.store import Store
from tests.fakes.waiting import until
from tools.kubectl import Kubectl

pytestmark = [pytest.mark.cluster, pytest.mark.anyio]

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
PODS = Resource("", "v1", "pods", "Pod")


@pytest.fixture
async def real(kubeconfig: Path) -> AsyncIterator[KubernetesClient]:
    client = KubernetesClient.connect(field_manager="kernel-tests", kubeconfig=kubeconfig)
    yield client
    await client.close()


@pytest.fixture
async def namespace(real: KubernetesClient) -> AsyncIterator[str]:
    name = f"kernel-{secrets.token_hex(3)}"
    await real.create(NAMESPACES, None, {"metadata": {"name": name}})
    yield name
    await real.delete(NAMESPACES, None, name)


def config_map(name: str, value: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"app": "kernel"}}, "data": {"key": value}}


async def test_writes_keep_their_preconditions(real: KubernetesClient, namespace: str) -> None:
    created = await real.create(CONFIG_MAPS, namespace, config_map("a"))
    with pytest.raises(AlreadyExists):
        await real.create(CONFIG_MAPS, namespace, config_map("a"))
    version = created["metadata"]["resourceVersion"]
    await real.merge_patch(CONFIG_MAPS, namespace, "a", {"data": {"key": "2"}})
    stale = {"metadata": {"resourceVersion": version}, "data": {"key": "3"}}
    with pytest.raises(Conflict):
        await real.merge_patch(CONFIG_MAPS, namespace, "a", stale)
    with pytest.raises(Conflict):
        await real.delete(CONFIG_MAPS, namespace, "a", uid="another")
    with pytest.raises(Conflict):
        await real.delete(CONFIG_MAPS, namespace, "a", resource_version=version)
    assert await real.delete(CONFIG_MAPS, namespace, "a", uid=created["metadata"]["uid"], propagation="Background")
    assert not await real.delete(CONFIG_MAPS, namespace, "a")


async def test_an_identical_apply_is_free_and_a_named_uid_raises_no_ghost(
    real: KubernetesClient, namespace: str
) -> None:
    first = await real.apply(CONFIG_MAPS, namespace, "a", config_map("a"))
    again = await real.apply(CONFIG_MAPS, namespace, "a", config_map("a"))
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    await real.delete(CONFIG_MAPS, namespace, "a")
    with pytest.raises(Conflict):
        await real.apply(CONFIG_MAPS, namespace, "a", {"metadata": {"uid": first["metadata"]["uid"]}})
    with pytest.raises(NotFound):
        await real.apply(PODS, namespace, "gone", {"status": {}}, subresource="status")


async def test_a_gate_is_set_beside_the_kubelets_conditions(real: KubernetesClient, namespace: str) -> None:
    container = {"name": "c", "image": "none.invalid/none"}
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "no-such-node", "containers": [container]}}
    await until_default_account(real, namespace)
    uid = (await real.create(PODS, namespace, pod))["metadata"]["uid"]
    body: dict[str, Any] = {
        "metadata": {"uid": uid},
        "status": {"conditions": [{"type": "example.io/gate", "status": "True"}]},
    }
    applied = await real.apply(PODS, namespace, "p", body, subresource="status", field_manager="prober")
    again = await real.apply(PODS, namespace, "p", body, subresource="status", field_manager="prober")
    assert "example.io/gate" in {condition["type"] for condition in applied["status"]["conditions"]}
    assert again["metadata"]["resourceVersion"] == applied["metadata"]["resourceVersion"]
    body["metadata"]["uid"] = "another"
    with pytest.raises((Conflict, Invalid)):
        await real.apply(PODS, namespace, "p", body, subresource="status", field_manager="prober")


async def until_default_account(real: KubernetesClient, namespace: str) -> None:
    """Pods are refused until the namespace's service account exists."""
    accounts = Resource("", "v1", "serviceaccounts", "ServiceAccount")

    async def exists() -> bool:
        return await real.get(accounts, namespace, "default") is not None

    await until_async(exists)


async def until_async(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await condition():  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.05)


async def test_a_reflector_follows_and_compares_after_a_silence(
    real: KubernetesClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kept", "deleted"):
        await real.create(CONFIG_MAPS, namespace, config_map(name))
    store = Store()
    changes: list[str] = []
    store.on_change(lambda old, new: changes.append(("~" if old and new else "+" if new else "-") + _name(new or old)))
    reflector = Reflector(real, CONFIG_MAPS, store, namespace=namespace, label_selector="app")
    task = asyncio.create_task(reflector.run())
    await until(lambda: reflector.status.connected)
    assert all("managedFields" not in obj["metadata"] and obj["kind"] == "ConfigMap" for obj in store)
    await real.merge_patch(CONFIG_MAPS, namespace, "kept", {"data": {"key": "2"}})
    await until(lambda: "~kept" in changes)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await real.delete(CONFIG_MAPS, namespace, "deleted")
    reflector._version = "999999999999"  # As after a restored backup: the server accepts it and stays silent.
    monkeypatch.setattr(real._watch, "timeout", 0.5)
    task = asyncio.create_task(reflector.run())
    await until(lambda: reflector.status.relists == 2)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert changes == ["+deleted", "+kept", "~kept", "-deleted"]


def _name(obj: dict[str, Any] | None) -> str:
    return str((obj or {})["metadata"]["name"])


async def test_the_lease_is_taken_renewed_and_released(real: KubernetesClient, namespace: str) -> None:
    policy = LeasePolicy(duration=15, renew_deadline=10, retry=0.1, look=0.1)
    elector = LeaderElector(real, namespace, "controller", "one", policy=policy)
    task = asyncio.create_task(elector.run())
    await until(elector.leading.is_set)
    first = await real.get(LEASES, namespace, "controller") or {}

    async def renewed() -> bool:
        lease = await real.get(LEASES, namespace, "controller") or {}
        return bool(lease["spec"]["renewTime"] > first["spec"]["renewTime"])

    await until_async(renewed)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await elector.release()
    second = LeaderElector(real, namespace, "controller", "two", policy=policy)
    task = asyncio.create_task(second.run())
    await until(second.leading.is_set, seconds=5)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_events_are_accepted_and_become_series(real: KubernetesClient, namespace: str) -> None:
    obj = await real.create(CONFIG_MAPS, namespace, config_map("a"))
    reference = ObjectReference.of(obj)
    dropped: list[str] = []
    recorder = EventRecorder(real, controller="kernel-tests", instance="pod-0", on_drop=dropped.append)
    task = asyncio.create_task(recorder.run())
    for _ in range(3):
        recorder.record(reference, "Warning", "Tested", "🙂" * 1000)
    await recorder.flush(10)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    [event] = [item for item in await real.list(EVENTS, namespace) if item["reason"] == "Tested"]
    assert (event["series"]["count"], event["regarding"]["uid"], dropped) == (3, reference.uid, [])
    assert ObjectKey(namespace, "a") == ObjectKey(event["regarding"]["namespace"], event["regarding"]["name"])


def loaded(kubeconfig: Path) -> Any:
    return yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))


async def test_what_kubectl_accepts_reaches_the_cluster(
    kubeconfig: Path, kubectl: Kubectl, real: KubernetesClient, namespace: str, tmp_path: Path
) -> None:
    """Plugins that give an account's token or the administrator's certificate, and a name that has to be right."""
    admin = loaded(kubeconfig)
    cluster, user = admin["clusters"][0]["cluster"], admin["users"][0]["user"]
    accounts = Resource("", "v1", "serviceaccounts", "ServiceAccount")
    await real.create(accounts, namespace, {"metadata": {"name": "reader"}})
    token = (await asyncio.to_thread(kubectl.run, "create", "token", "reader", "-n", namespace)).strip()
    pem = {field: base64.b64decode(user[f"{field}-data"]).decode() for field in ("client-certificate", "client-key")}
    pair = {"clientCertificateData": pem["client-certificate"], "clientKeyData": pem["client-key"]}
    named = {**cluster, "tls-server-name": "kubernetes.default.svc"}
    misnamed = {**cluster, "tls-server-name": "nobody.example"}

    async def told(cluster: dict[str, Any], version: str, status: dict[str, str]) -> str:
        answer = json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status})
        plugin = {"apiVersion": version, "command": "echo", "args": [answer], "interactiveMode": "Never"}
        written = {**admin, "clusters": [{**admin["clusters"][0], "cluster": cluster}]}
        written["users"] = [{**admin["users"][0], "user": {"exec": plugin}}]
        (tmp_path / "config").write_text(yaml.safe_dump(written), encoding="utf-8")
        client = KubernetesClient.connect(field_manager="kernel-tests", kubeconfig=tmp_path / "config")
        client._policy = RetryPolicy(attempts=1)
        try:
            await client.get(CONFIG_MAPS, namespace, "kube-root-ca.crt")
        except KubernetesError as error:
            return str(error)
        finally:
            await client.close()
        return "answered"

    v1, v1beta1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"
    account = f"system:serviceaccount:{namespace}:reader"
    for version in (v1, v1beta1):
        assert f'"{account}" cannot get' in await told(cluster, version, {"token": token})
        assert await told(cluster, version, pair) == "answered"
    assert await told(named, v1, pair) == "answered"
    assert "nobody.example" in await told(misnamed, v1, pair)

"""The reflector under load: a fleet of a thousand objects stays cheap."""

import asyncio
import contextlib
import time
from typing import Any

import pytest

from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.reflector import Reflector
from reconciler.kernel.resources import Resource
from reconciler.kernel.store import Store
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.waiting import until

THINGS = Resource("example.io", "v1", "things", "Thing")
PODS = Resource("", "v1", "pods", "Pod")


def obj(kind: str, name: str, app: str, node: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": {"app": app}}
    return {"kind": kind, "metadata": metadata, "spec": {"node": node}}


@pytest.mark.anyio
async def test_a_thousand_objects_with_three_pods_each_stay_cheap(
    server: FakeApiServer, client: KubernetesClient
) -> None:
    """Listed, then every first Pod changed; the CPU seconds include the fake server's half of the work."""
    for number in range(1000):
        app = f"t{number}"
        server.put("example.io/v1", "things", obj("Thing", app, app, "n1"))
        for replica in range(3):
            server.put("v1", "pods", obj("Pod", f"{app}-{replica}", app, "n1"))
    things, pods = Store(), Store({"app": lambda pod: [pod["metadata"]["labels"]["app"]]})
    reflectors = [Reflector(client, THINGS, things), Reflector(client, PODS, pods)]
    started = time.process_time()
    tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
    await until(lambda: all(reflector.status.connected for reflector in reflectors))
    assert (len(things), len(pods)) == (1000, 3000)
    for number in range(1000):
        server.put("v1", "pods", obj("Pod", f"t{number}-0", f"t{number}", "n2"))
    await until(lambda: reflectors[1].status.events == 1000)
    assert time.process_time() - started < 6.0
    assert sorted(pod["spec"]["node"] for pod in pods.by_index("app", "t7")) == ["n1", "n1", "n2"]
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

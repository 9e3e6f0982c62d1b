"""A whole reconciler process against fakes on real sockets, with a clock that moves when told to.

Nothing of the product is replaced but the Pulumi driver: API server, registry and runtimes are reached over HTTP.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from api.decisionmodel import DecisionModel
from api.keys import API_VERSION, GROUP, KIND, NAME_LABEL, PLURAL
from api.status import DecisionModelStatus
from components.manifests import ObjectKey as ManifestKey
from components.program import ProviderSettings
from reconciler.controller.settings import ControllerSettings
from reconciler.controller.watched import BY_KIND, CHILD_RESOURCES, DECISION_MODELS, PODS, SERVICES
from reconciler.engine.proxy import ProxySettings
from reconciler.engine.registry_policy import RegistryPolicy
from reconciler.engine.runtime import RuntimeClient
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.connection import load_configuration, open_api_client, open_watch_client
from reconciler.kernel.resources import ObjectKey, Resource, object_key
from reconciler.main import _TASK_LIMITS, Connections, Reconciliation
from reconciler.options import Options
from tests.fakes.apiserver import FakeApiServer, Request
from tests.fakes.apistore import Snapshot
from tests.fakes.json_copy import json_copy
from tests.fakes.waiting import until
from tests.reconciler.controller.clocks import ManualClock
from tests.reconciler.controller.kubelet import Kubelet
from tests.reconciler.controller.runtimes import FakeRuntime, Runtimes
from tests.reconciler.controller.stack_engine import FakeDriver
from tools.standin.registry import Registry
from tools.standin.registry.names import TagName

Object = dict[str, Any]
KEY = ObjectKey("default", "router")
_WAKE = ObjectKey("", "clock")


def options(registry_url: str, kubeconfig: Path, **settings: Any) -> Options:
    """Options of a reconciler for the registry; `settings` are fields of `ControllerSettings`."""
    host = registry_url.partition("://")[2]
    controller = ControllerSettings(
        registries=RegistryPolicy(registry_url=registry_url, allowed=frozenset({host}), allow_insecure=True),
        provider=ProviderSettings(kubeconfig=str(kubeconfig), cluster_identifier="tests"),
    )
    return Options(
        controller=replace(controller, **settings),
        proxy=ProxySettings(),
        namespaces=(),
        leader_elect=False,
        workers=4,
        metrics=None,
        health=None,
        kubeconfig=kubeconfig,
        pulumi=Path("/nowhere/pulumi"),
        pulumi_home=Path("/nowhere/home"),
        backend_url="file:///nowhere/state",
        work_directory=Path("/nowhere/work"),
        stack_workers=1,
        console=False,
        log_level="info",
    )


@dataclass(frozen=True)
class Moment:
    """What a reconciler leaves behind that is killed just before the write with that label."""

    label: str
    store: Snapshot
    stacks: Mapping[str, Mapping[ManifestKey, Object]]
    loaded: Mapping[str, str | None]
    """What each runtime has in memory."""


class Bed:
    """One cluster, one registry, and the reconciler that works on them; the reconciler can be killed and restarted."""

    def __init__(self, server: FakeApiServer, registry: Registry, runtimes: Runtimes, directory: Path) -> None:
        self.server = server
        self.registry = registry
        self.runtimes = runtimes
        self.clock = ManualClock()
        server.store.stamp = self.clock.stamp
        self.kubelet = Kubelet(server, runtimes, self.clock)
        self.kubeconfig = server.write_kubeconfig(directory / "kubeconfig")
        self.options = options(registry.base_url, self.kubeconfig)
        self.driver = FakeDriver(server, {})
        self.parts: Reconciliation
        self.process: asyncio.Task[None] | None = None

    # The process.

    def start(self) -> None:
        """Start the reconciler."""
        self.driver = FakeDriver(self.server, self.driver.states)
        configuration = load_configuration(self.kubeconfig)
        client, lease_client = (
            KubernetesClient(
                open_api_client(configuration, "tests"),
                open_watch_client(configuration, "tests"),
                field_manager="decisionmodel-status",
                timing=self.clock.timing(),
            )
            for _ in range(2)
        )
        connections = Connections(
            client=client,
            lease_client=lease_client,
            driver=self.driver,
            runtimes=RuntimeClient(port=self.runtimes.port),
            timing=self.clock.timing(),
        )
        self.parts = Reconciliation(self.options, connections)
        self.process = asyncio.create_task(self.parts.run())

    async def kill(self) -> None:
        """End the reconciler without letting it finish anything."""
        if self.process is None:
            return
        self.process.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.process
        self.process = None
        self.server.faults.clear()

    async def restart(self) -> None:
        """Kill the reconciler and start another one."""
        await self.kill()
        self.start()
        await self.settle()

    def start_recorded(self) -> list[Moment]:
        """Start the reconciler; what it would leave behind is added to the list before each of its writes."""
        self.start()
        moments: list[Moment] = []

        def before_request(request: Request) -> bool:
            if request.method != "GET":
                moments.append(self.moment(f"{request.method} {request.path}"))
            return False

        async def before_stack_write() -> None:
            moments.append(self.moment("stack"))

        self.server.fail(500, matches=before_request)
        self.driver.before_write = before_stack_write
        return moments

    def moment(self, label: str = "") -> Moment:
        """What there is right now, to go on from it more than once."""
        return Moment(
            label=label,
            store=self.server.store.snapshot(),
            stacks={stack: dict(state) for stack, state in self.driver.states.items()},
            loaded={address: runtime.loaded for address, runtime in self.runtimes.by_address.items()},
        )

    async def restart_at(self, moment: Moment) -> None:
        """Kill the reconciler and start another one on what was left behind at that moment."""
        await self.kill()
        self.server.store.restore(moment.store)
        self.driver.states = {stack: dict(state) for stack, state in moment.stacks.items()}
        for address, model in moment.loaded.items():
            self.runtimes.by_address[address].loaded = model
        self.start()
        await self.settle()

    # Time.

    async def run_until(self, condition: Callable[[], object]) -> None:
        """Let the cluster and the reconciler live until a condition holds, at the same time of the clock."""
        async with asyncio.timeout(60):
            while not condition():
                await self._live()

    async def settle(self) -> None:
        """Let everything happen that happens without time passing."""
        async with asyncio.timeout(60):
            await self._live()
            while not await self._is_settled():
                await self._live()

    async def _is_settled(self) -> bool:
        """Whether the reconciler has nothing left to do, and the cluster nothing to answer to what it did."""
        if not self._is_idle():
            return False
        await self.parts.events.flush(5)
        return not await self.kubelet.sync() and self._is_idle()

    async def _live(self) -> None:
        assert self.process is not None
        if self.process.done():
            self.process.result()
        await self.kubelet.sync_changes()
        await asyncio.sleep(0.001)

    async def advance(self, seconds: float) -> None:
        """Let time pass at once, and then everything happen that was due."""
        self.clock.seconds += seconds
        self.parts.queue.add(_WAKE)
        await self.settle()

    async def next_pass(self) -> float:
        """Let time pass until the next pass is due and make it; returns the seconds."""
        due = self.parts.queue.next_due()
        assert due is not None, "no pass is due"
        seconds = due - self.clock.seconds
        await self.advance(seconds)
        return seconds

    def _is_idle(self) -> bool:
        queue, background = self.parts.queue, self.parts.background
        due = queue.next_due()
        hanging = self.driver.hanging + self.runtimes.hanging
        lines = (*background.slots().values(), self.parts.runtime_client.inspections)
        # Who has no slot waits for something that hangs, or for somebody who works.
        waiting = sum(count for line in lines for count, _ in line.waiting().values())
        working = sum(background.count(kind) for kind in _TASK_LIMITS) - hanging - waiting
        ready = len(queue) or queue.processing or (due is not None and due <= self.clock.seconds + 0.001)
        return not ready and not working and self._caught_up()

    def _caught_up(self) -> bool:
        watched = self.parts.watched
        stores = {DECISION_MODELS: watched.models, **watched.children}
        for resource, store in stores.items():
            live = self.server.objects(resource.api_version, resource.plural)
            if resource is not DECISION_MODELS:
                live = [obj for obj in live if NAME_LABEL in obj["metadata"].get("labels", {})]
            if {object_key(obj): obj["metadata"]["resourceVersion"] for obj in live} != {
                object_key(obj): obj["metadata"]["resourceVersion"] for obj in store
            }:
                return False
        return True

    # What users do.

    def declare(
        self,
        name: str = KEY.name,
        annotations: dict[str, str] | None = None,
        namespace: str = KEY.namespace,
        **spec: Any,
    ) -> Object:
        """Create or change a DecisionModel."""
        live = self.server.object(API_VERSION, PLURAL, namespace, name)
        metadata: Object = {"name": name, "namespace": namespace}
        if annotations is not None:
            metadata["annotations"] = annotations
        obj: Object = {"kind": KIND, "metadata": metadata, "spec": {"model": "laya:en", **spec}}
        if live is not None and "status" in live:
            obj["status"] = live["status"]
        return self.server.put(API_VERSION, PLURAL, obj)

    def lose_status(self, *fields: str) -> None:
        """Empty these fields of the status, or all of it, as a restored backup or a wrong edit does."""

        def without(obj: Object) -> None:
            status = obj.pop("status", {})
            if fields:
                obj["status"] = {key: value for key, value in status.items() if key not in fields}

        self.edit(DECISION_MODELS, KEY.name, without)

    def restore_status(self, older: DecisionModelStatus) -> None:
        """Put an older status back, as a restored backup does."""
        self.edit(DECISION_MODELS, KEY.name, lambda obj: obj.update(status=older.dump()))

    def delete(self, name: str = KEY.name) -> None:
        """Delete the DecisionModel; the garbage collector deletes its children."""
        self.server.remove(API_VERSION, PLURAL, KEY.namespace, name)

    def put_secret(self, name: str, value: str, label: str | None = f"{GROUP}/api-key", key: str = "api-key") -> None:
        """Create or change a Secret."""
        labels = {} if label is None else {label: "true"}
        data = {key: base64.b64encode(value.encode()).decode()}
        metadata = {"name": name, "namespace": KEY.namespace, "labels": labels}
        self.server.put("v1", "secrets", {"kind": "Secret", "metadata": metadata, "data": data})

    def remove_secret(self, name: str) -> None:
        """Delete a Secret."""
        self.server.remove("v1", "secrets", KEY.namespace, name)

    async def rolled_out(self, **spec: Any) -> str:
        """Declare the model, let it become Ready, and return its revision."""
        self.declare(**spec)
        await self.settle()
        assert self.status.phase == "Ready", self.status
        assert self.status.stable_revision is not None
        return self.status.stable_revision.hash

    # What is there.

    @property
    def model(self) -> DecisionModel:
        """The DecisionModel as the API server holds it."""
        found = self.server.object(API_VERSION, PLURAL, *KEY)
        assert found is not None
        return DecisionModel.model_validate(found)

    @property
    def status(self) -> DecisionModelStatus:
        """Its status."""
        # Alone, since the object beside it may be one that nobody can read.
        found = self.server.object(API_VERSION, PLURAL, *KEY)
        assert found is not None
        return DecisionModelStatus.model_validate(found.get("status") or {})

    def condition(self, type_: str) -> tuple[str, str, str]:
        """Status, reason and message of a condition; empty when it is not there."""
        for condition in self.status.conditions:
            if condition.type == type_:
                return condition.status, condition.reason, condition.message
        return "", "", ""

    def objects(self, resource: Resource) -> list[Object]:
        """The objects of a kind, in all namespaces."""
        return self.server.objects(resource.api_version, resource.plural)

    def get(self, resource: Resource, name: str) -> Object:
        """One object, which must be there."""
        found = self.server.object(resource.api_version, resource.plural, KEY.namespace, name)
        assert found is not None, name
        return found

    def edit(self, resource: Resource, name: str, change: Callable[[Object], object]) -> Object:
        """Change an object as somebody else would."""
        changed = json_copy(self.get(resource, name))
        change(changed)
        return self.server.put(resource.api_version, resource.plural, changed)

    def remove(self, resource: Resource, name: str) -> None:
        """Delete an object as somebody else would."""
        self.server.remove(resource.api_version, resource.plural, KEY.namespace, name)

    @property
    def children(self) -> list[tuple[str, str]]:
        """Kind and name of everything in the cluster that the stack may hold."""
        kinds = ("PersistentVolumeClaim", "Job", "Deployment", "PodDisruptionBudget", "Service")
        return sorted((kind, obj["metadata"]["name"]) for kind in kinds for obj in self.objects(BY_KIND[kind]))

    @property
    def selected(self) -> str | None:
        """The revision that the Service selects."""
        services = self.objects(SERVICES)
        return services[0]["spec"]["selector"][f"{GROUP}/revision"] if services else None

    @property
    def events(self) -> list[str]:
        """Reasons of all Events, in the order of their creation; repeated ones are one."""
        found = self.server.objects("events.k8s.io/v1", "events")
        return [obj["reason"] for obj in sorted(found, key=lambda obj: int(obj["metadata"]["resourceVersion"]))]

    @property
    def pods(self) -> list[Object]:
        """The serving Pods."""
        return [pod for pod in self.objects(PODS) if "readinessGates" in pod.get("spec", {})]

    @property
    def runtime(self) -> FakeRuntime:
        """The runtime of the only serving Pod."""
        (pod,) = self.pods
        return self.kubelet.runtime_of(pod)

    def gate(self, pod: Object | None = None) -> tuple[str, str]:
        """Status and reason of a serving Pod's gate, by default of the only one."""
        (found,) = self.pods if pod is None else [pod]
        for condition in found["status"].get("conditions", []):
            if condition["type"] == f"{GROUP}/model-ready":
                return condition["status"], condition["reason"]
        return "", ""

    @property
    def status_writes(self) -> list[Request]:
        """The requests that wrote a DecisionModel's status."""
        return [request for request in self.server.writes if f"/{PLURAL}/" in request.path]

    def sample(self, metric: str, **labels: str) -> float | None:
        """A metric's value for the DecisionModel; None when there is no such series."""
        return self.parts.registry.get_sample_value(metric, {"namespace": KEY.namespace, "name": KEY.name, **labels})


@asynccontextmanager
async def open_bed(registry: Registry, directory: Path) -> AsyncIterator[Bed]:
    """A bed whose reconciler is not started yet; what it does to the registry is taken back."""
    published = registry.site.digests()
    runtimes = Runtimes()
    await runtimes.reserve()
    # Nobody speaks TLS here, and reading the machine's certificates takes longer than a whole rollout.
    with patch.dict(os.environ, {"SSL_CERT_DIR": str(directory)}):
        os.environ.pop("SSL_CERT_FILE", None)
        async with FakeApiServer() as server:
            bed = Bed(server, registry, runtimes, directory)
            try:
                yield bed
            finally:
                await bed.kill()
                await runtimes.close()
                _restore(registry, published)


def _restore(registry: Registry, published: Mapping[TagName, str]) -> None:
    registry.clear_failures()
    registry.forget_requests()
    for name, digest in registry.site.digests().items():
        if name not in published:
            registry.site.delete_tag(name)
        elif digest != published[name]:
            registry.site.move_tag(name, name)


__all__ = ["CHILD_RESOURCES", "KEY", "Bed", "Moment", "Object", "open_bed", "until"]

"""The reconciler as a process: reads its options, puts the parts together, and runs until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from typing import Any

import click
from prometheus_client import CollectorRegistry

from api.keys import LEADER_LEASE, NAME_LABEL, REPORTING_CONTROLLER, STATUS_FIELD_MANAGER
from reconciler.controller.adoption import Adopter
from reconciler.controller.evaluation_subject import EVALUATION_TASKS
from reconciler.controller.evaluations import Evaluations
from reconciler.controller.evidence import EvidenceKeeper
from reconciler.controller.gathering import Gatherer
from reconciler.controller.growth import StoreGrower
from reconciler.controller.line_metrics import Line, LineCollector, line_of
from reconciler.controller.metrics import ControllerMetrics
from reconciler.controller.notices import NoticeReader
from reconciler.controller.owned_config_maps import OwnedConfigMaps
from reconciler.controller.probing import PROBE_TASKS, GateChange, Prober
from reconciler.controller.reconciler import Collaborators, Reconciler
from reconciler.controller.resolution import RESOLVE_TASKS, Resolver
from reconciler.controller.seeds import Seeds
from reconciler.controller.stacks import STACK_TASKS, StackConverger
from reconciler.controller.watched import DECISION_MODELS, PODS, Watched
from reconciler.driver import DriverError, DriverSettings, StackDriver
from reconciler.driver.state_rules import StateRules
from reconciler.engine.errors import EngineError
from reconciler.engine.registry import RegistryClient
from reconciler.engine.runtime import RuntimeClient
from reconciler.evaluation.execution import Evaluator
from reconciler.kernel.background import BackgroundTasks, TaskKey
from reconciler.kernel.certificates import context_from_files, self_signed_context
from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import KernelError
from reconciler.kernel.events import EventRecorder
from reconciler.kernel.health import BindAddress, HttpServer, check_route, metrics_route
from reconciler.kernel.json_log import configure_logging
from reconciler.kernel.lease import DEFAULT_LEASE
from reconciler.kernel.lease_thread import LeaseThread
from reconciler.kernel.metrics import (
    QueueMetrics,
    ReconcileMetrics,
    ReflectorCollector,
    dropped_events_metric,
    leader_metric,
)
from reconciler.kernel.queue import WorkQueue
from reconciler.kernel.reflector import Reflector, reflectors_for
from reconciler.kernel.resources import ObjectKey
from reconciler.kernel.runner import Runner
from reconciler.kernel.scrape_access import ScrapeAccess
from reconciler.kernel.timing import REAL_TIME, Timing
from reconciler.kernel.workers import Workers
from reconciler.options import Options, declared, read_options

CONTROLLER = "decisionmodel"
SWEEP_TASKS = "sweep"
# A probe takes turns only where it inspects or writes: one whose model loads for long must not hold up others.
_TASK_LIMITS = {RESOLVE_TASKS: 16, PROBE_TASKS: None, EVALUATION_TASKS: 64, STACK_TASKS: 4096, SWEEP_TASKS: 1}
# They wait for what a namespace's own Pods or registries answer.
_ENDLESS_TASKS = frozenset({RESOLVE_TASKS, EVALUATION_TASKS})
_DRAIN_SECONDS = 20.0
# After a crash or the loss of the Lease another may lead soon: what the engine does has to end before that, and killing
# what does not takes its time too.
_SAVE_SECONDS = (DEFAULT_LEASE.duration - DEFAULT_LEASE.renew_deadline) / 2
_LEASE_CONNECTIONS = 2
_NO_OBJECT = ObjectKey("", "")
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """What the process reaches the outside through, closed by `Reconciliation.run`, and its time and chance."""

    client: KubernetesClient
    lease_client: KubernetesClient
    """For the Lease alone: a renewal must not queue behind whatever else is asked of a slow API server."""
    driver: StackDriver
    runtimes: RuntimeClient
    timing: Timing = REAL_TIME


class Reconciliation:
    """All parts of one reconciler process, wired."""

    def __init__(self, options: Options, connections: Connections) -> None:
        self.options = options
        self.registry = CollectorRegistry()
        self.client = connections.client
        self.lease_client = connections.lease_client
        self.driver = connections.driver
        self.timing = connections.timing
        self.watched = Watched()
        queue_metrics = QueueMetrics(self.registry, CONTROLLER)
        self.queue: WorkQueue[ObjectKey] = WorkQueue(observer=queue_metrics, timing=self.timing)
        queue_metrics.bind(self.queue)
        self.watched.when_changed(self.queue.add)
        self.background = BackgroundTasks(
            _TASK_LIMITS, self.queue.add, reserved=_ENDLESS_TASKS, clock=self.timing.clock
        )
        self.metrics = ControllerMetrics(self.registry)
        self.registry_client = RegistryClient(
            options.controller.registries,
            observe=self.metrics.resolved,
            sleep=self.timing.sleep,
            clock=self.timing.clock,
        )
        self.runtime_client = connections.runtimes
        self.events = EventRecorder(
            self.client,
            controller=REPORTING_CONTROLLER,
            instance=socket.gethostname(),
            on_drop=dropped_events_metric(self.registry),
            timing=self.timing,
        )
        self.evaluations = self._evaluations()
        self._sweep_started = False
        self.reconciler = self._reconciler()
        self.registry.register(LineCollector(self._lines()))

    def _lines(self) -> Mapping[str, Callable[[], Line]]:
        limited = self.background.slots()
        slots = {
            RESOLVE_TASKS: limited[RESOLVE_TASKS],
            PROBE_TASKS: self.runtime_client.inspections,
            EVALUATION_TASKS: limited[EVALUATION_TASKS],
            "compare": self.evaluations.comparisons,
            STACK_TASKS: self.driver.turns,
        }
        lines = {work: line_of(each) for work, each in slots.items()}
        return {**lines, "rollout": lambda: self.reconciler.line(self.timing.now())}

    def _evaluations(self) -> Evaluations:
        return Evaluations(
            self.client,
            Evaluator(client=self.runtime_client, clock=self.timing.clock, sleep=self.timing.sleep),
            self.background,
            EvidenceKeeper(OwnedConfigMaps(self.client)),
            clock=self.timing.clock,
            now=self.timing.now,
        )

    def _reconciler(self) -> Reconciler:
        settings = self.options.controller
        stacks = StackConverger(
            self.driver,
            self.client,
            self.background,
            settings.provider,
            deadline=settings.stack_deadline,
            observe=self.metrics.operated,
            clock=self.timing.clock,
        )
        resolver = Resolver(self.registry_client, self.background, clock=self.timing.clock)
        prober = Prober(
            self.client,
            self.runtime_client,
            self.background,
            on_change=self._gate_changed,
            on_written=self.watched.children[PODS].upsert_newer,
            clock=self.timing.clock,
            now=self.timing.now,
        )
        self.stacks = stacks
        config_maps = OwnedConfigMaps(self.client)
        grower = StoreGrower(self.client, clock=self.timing.clock)
        seeds, evidence = Seeds(config_maps), EvidenceKeeper(config_maps)
        notices = NoticeReader(self.client, clock=self.timing.clock)
        return Reconciler(
            settings,
            Collaborators(
                client=self.client,
                watched=self.watched,
                adopter=Adopter(self.client, self.watched),
                gatherer=Gatherer(
                    settings,
                    self.client,
                    self.watched,
                    resolver,
                    prober,
                    stacks,
                    grower,
                    seeds,
                    self.evaluations,
                    notices,
                    now=self.timing.now,
                ),
                resolver=resolver,
                prober=prober,
                stacks=stacks,
                seeds=seeds,
                evaluations=self.evaluations,
                evidence=evidence,
                notices=notices,
                grower=grower,
                events=self.events,
                metrics=self.metrics,
            ),
            now=self.timing.now,
        )

    def _gate_changed(self, change: GateChange) -> None:
        self.reconciler.gate_changed(change)

    async def run(self) -> None:
        """Run until a signal, or until a part breaks."""
        reflectors, elector = self._reflectors(), self._elector()
        self.registry.register(ReflectorCollector(reflectors, REAL_TIME.clock))
        runner = Runner(
            workers=Workers(
                reconcile=self._reconcile,
                queue=self.queue,
                metrics=ReconcileMetrics(self.registry, CONTROLLER),
                count=self.options.workers,
                timing=self.timing,
            ),
            reflectors=reflectors,
            background=self.background,
            events=self.events,
            elector=elector,
            drained_kinds=frozenset({STACK_TASKS}),
            drain_seconds=_DRAIN_SECONDS,
            # Operations that were cancelled still save their state, which nobody else may write meanwhile.
            last_writes=functools.partial(self.driver.close, 0),
        )
        # The first pass starts the sweep, so there has to be one even if no DecisionModel is left.
        self.queue.add(_NO_OBJECT)
        try:
            runner.servers = self._servers(runner)
            await self.driver.start()
            await runner.run()
        finally:
            await self.driver.close(0, _SAVE_SECONDS)
            await self.registry_client.aclose()
            await self.runtime_client.aclose()
            await self.client.close()
            await (elector or self.lease_client).close()

    async def _reconcile(self, key: ObjectKey) -> float | None:
        if not self._sweep_started:
            # The first pass comes after the caches have synced and the Lease is held: only then is an orphan one.
            self._sweep_started = True
            self.background.start(TaskKey(_NO_OBJECT, SWEEP_TASKS), self._sweep)
        return await self.reconciler.reconcile(key)

    async def _sweep(self) -> None:
        try:
            swept = await self.stacks.sweep_orphans(self.reconciler.owners, self.options.namespaces)
        except DriverError as error:
            _log.warning("orphaned stacks stay until the next start: %s", error)
        else:
            _log.info("dropped %d orphaned stacks", swept)

    def _reflectors(self) -> list[Reflector]:
        namespaces = self.options.namespaces
        reflectors = reflectors_for(self.client, DECISION_MODELS, self.watched.models, namespaces)
        for resource, store in self.watched.children.items():
            reflectors += reflectors_for(self.client, resource, store, namespaces, label_selector=NAME_LABEL)
        return reflectors

    def _elector(self) -> LeaseThread | None:
        if not self.options.leader_elect:
            return None
        return LeaseThread(
            self.lease_client,
            _own_namespace(),
            LEADER_LEASE,
            f"{socket.gethostname()}_{uuid.uuid4()}",
            on_change=leader_metric(self.registry, LEADER_LEASE),
        )

    def _servers(self, runner: Runner) -> list[HttpServer]:
        servers = []
        if self.options.health is not None:
            routes = {
                "/healthz": check_route(runner.liveness_problems),
                "/readyz": check_route(runner.readiness_problems),
            }
            servers.append(HttpServer(self.options.health, routes))
        if self.options.metrics is not None:
            servers.append(self._metrics_server(self.options.metrics))
        return servers

    def _metrics_server(self, address: BindAddress) -> HttpServer:
        routes = {"/metrics": metrics_route(self.registry)}
        if not self.options.metrics_secure:
            return HttpServer(address, routes)
        files = self.options.metrics_certificate
        tls = context_from_files(files) if files else self_signed_context(socket.gethostname(), self.timing.now())
        return HttpServer(address, routes, tls=tls, admit=ScrapeAccess(self.client, clock=self.timing.clock).admit)


def _driver_settings(options: Options) -> DriverSettings:
    provider = options.controller.provider
    settings = DriverSettings(
        pulumi=options.pulumi,
        pulumi_home=options.pulumi_home,
        backend_url=options.backend_url,
        work_directory=options.work_directory,
        preload=("components.declaration",),
        state_rules=StateRules(cluster_identifier=provider.cluster_identifier, kubeconfig=provider.kubeconfig),
    )
    return settings if options.stack_workers is None else replace(settings, workers=options.stack_workers)


def _own_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except OSError:
        return os.environ.get("POD_NAMESPACE", "decision-model-operator-system")


async def _run(options: Options) -> None:
    connect = functools.partial(
        KubernetesClient.connect, field_manager=STATUS_FIELD_MANAGER, kubeconfig=options.kubeconfig
    )
    connections = Connections(
        client=connect(),
        lease_client=connect(connections=_LEASE_CONNECTIONS),
        driver=StackDriver(_driver_settings(options)),
        runtimes=RuntimeClient(),
    )
    await Reconciliation(options, connections).run()


def _allow_open_files() -> None:
    """Have as many files open as the system grants: every Pod that loads its model holds a connection."""
    _, granted = getrlimit(RLIMIT_NOFILE)
    # Systems other than Linux may grant "unlimited" and refuse it; then what was the limit stays it.
    with contextlib.suppress(ValueError, OSError):
        setrlimit(RLIMIT_NOFILE, (granted, granted))


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)


def _reasons(error: BaseException) -> list[str]:
    """Return the messages of the errors we know in a group; raises the group if there is one we do not."""
    if isinstance(error, BaseExceptionGroup):
        return [reason for each in error.exceptions for reason in _reasons(each)]
    if isinstance(error, KernelError | DriverError | EngineError | OSError):
        return [str(error)]
    raise error


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@declared
def main(**flags: Any) -> None:
    """Reconcile DecisionModels: prefetch, start, prove, promote, watch, roll back."""
    options = read_options(flags)
    configure_logging(level=options.log_level, console=options.console)
    if options.proxy.skipped:
        _log.warning("not copied into prefetch Jobs, since they may hold credentials: %s", options.proxy.skipped)
    _allow_open_files()
    try:
        asyncio.run(_run(options))
    except (KernelError, DriverError, EngineError, OSError, ExceptionGroup) as error:
        for reason in _reasons(error):
            _log.error("%s", reason)
        sys.exit(1)


if __name__ == "__main__":
    # Process 1 of a container is spared every signal that it has not asked for, and the runner asks only once it runs.
    signal.signal(signal.SIGTERM, _end)
    main()

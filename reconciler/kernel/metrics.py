"""The controller's own metrics, under the names of controller-runtime and client-go, so that stock dashboards fit."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from reconciler.kernel.queue import WorkQueue
from reconciler.kernel.reflector import Reflector

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
RECONCILE_RESULTS = ("success", "requeue_after", "error")


class ReconcileMetrics:
    """What workers report, for one controller."""

    def __init__(self, registry: CollectorRegistry, controller: str) -> None:
        total = Counter(
            "controller_runtime_reconcile_total", "Reconciles by result", ["controller", "result"], registry=registry
        )
        errors = Counter(
            "controller_runtime_reconcile_errors_total", "Reconciles that failed", ["controller"], registry=registry
        )
        seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Length of a reconcile",
            ["controller"],
            buckets=_SECONDS,
            registry=registry,
        )
        workers = Gauge(
            "controller_runtime_active_workers", "Workers in a reconcile", ["controller"], registry=registry
        )
        self._totals = {result: total.labels(controller, result) for result in RECONCILE_RESULTS}
        self._errors = errors.labels(controller)
        self._seconds = seconds.labels(controller)
        self.active_workers = workers.labels(controller)

    def reconciled(self, result: str, seconds: float) -> None:
        """Count a reconcile; `result` is one of `RECONCILE_RESULTS`."""
        self._totals[result].inc()
        self._seconds.observe(seconds)
        if result == "error":
            self._errors.inc()


class QueueMetrics:
    """Hears a work queue (`QueueObserver`), and asks it for the rest at scrape time once bound to it."""

    def __init__(self, registry: CollectorRegistry, name: str) -> None:
        self._registry = registry
        self._name = name
        self._adds = self._counter("workqueue_adds_total", "Keys added")
        self._retries = self._counter("workqueue_retries_total", "Keys added again after a failure")
        self._waited = self._histogram("workqueue_queue_duration_seconds", "Time in the queue")
        self._worked = self._histogram("workqueue_work_duration_seconds", "Time in a worker's hands")

    def bind(self, queue: WorkQueue[Any]) -> None:
        """Report what only the queue itself knows."""
        self._gauge("workqueue_depth", "Keys ready to be taken", lambda: len(queue))
        self._gauge("workqueue_unfinished_work_seconds", "Work in progress", lambda: queue.unfinished_seconds)
        self._gauge(
            "workqueue_longest_running_processor_seconds", "Oldest work in progress", lambda: queue.longest_running
        )

    def added(self) -> None:
        """A key entered the queue."""
        self._adds.inc()

    def taken(self, waited: float) -> None:
        """A worker took a key that had waited so long."""
        self._waited.observe(waited)

    def finished(self, worked: float) -> None:
        """A worker finished a key after so long."""
        self._worked.observe(worked)

    def retried(self) -> None:
        """A key was added again after a failure."""
        self._retries.inc()

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, ["name"], registry=self._registry).labels(self._name)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, ["name"], buckets=_SECONDS, registry=self._registry).labels(self._name)

    def _gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        Gauge(name, text, ["name"], registry=self._registry).labels(self._name).set_function(value)


def leader_metric(registry: CollectorRegistry, name: str) -> Callable[[bool], None]:
    """Register `leader_election_master_status`; the result is the elector's `on_change`."""
    status = Gauge("leader_election_master_status", "1 while this process leads", ["name"], registry=registry)
    leads = status.labels(name)
    return lambda leading: leads.set(int(leading))


def dropped_events_metric(registry: CollectorRegistry) -> Callable[[str], None]:
    """Register the counter of Events not sent; the result is the recorder's `on_drop`."""
    dropped = Counter("event_recorder_dropped_total", "Events not sent", ["reason"], registry=registry)
    return lambda reason: dropped.labels(reason).inc()


class ReflectorCollector(Collector):
    """Reports, at scrape time, how each reflector is doing."""

    def __init__(self, reflectors: Sequence[Reflector], clock: Callable[[], float]) -> None:
        self._reflectors = reflectors
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families."""
        yield self._gauge("reflector_connected", "1 while a watch is open", lambda r: float(r.status.connected))
        yield self._gauge("reflector_objects", "Objects in the store", lambda r: float(len(r.store.keys(r.namespace))))
        yield self._gauge(
            "reflector_last_contact_seconds",
            "Time since the server was last heard",
            lambda r: self._clock() - r.status.last_contact if r.status.synced else float("nan"),
        )
        yield self._counter("reflector_relists", "Complete lists taken", lambda r: r.status.relists)
        yield self._counter("reflector_events", "Changes received", lambda r: r.status.events)

    def _gauge(self, name: str, text: str, value: Callable[[Reflector], float]) -> Metric:
        return self._fill(GaugeMetricFamily(name, text, labels=["resource", "namespace"]), value)

    def _counter(self, name: str, text: str, value: Callable[[Reflector], float]) -> Metric:
        return self._fill(CounterMetricFamily(name, text, labels=["resource", "namespace"]), value)

    def _fill(
        self, family: GaugeMetricFamily | CounterMetricFamily, value: Callable[[Reflector], float]
    ) -> GaugeMetricFamily | CounterMetricFamily:
        for reflector in self._reflectors:
            family.add_metric([reflector.resource.qualified_name, reflector.namespace], value(reflector))
        return family

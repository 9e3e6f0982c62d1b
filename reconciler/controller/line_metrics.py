"""Who waits for whom: for each kind of work whose slots are limited, by namespace, at the time of a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from reconciler.turns import FairSlots

_LABELS = ("work", "namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Those that hold slots for one kind of work, and those that wait for one.

    Attributes:
        held: How many slots each namespace holds.
        waiting: With how much work each namespace waits, and for how many seconds the longest.
    """

    held: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, tuple[int, float]] = field(default_factory=dict)


def line_of(slots: FairSlots) -> Callable[[], Line]:
    """Return what tells of the line at slots."""
    return lambda: Line(held=slots.held(), waiting=slots.waiting())


class LineCollector(Collector):
    """Reports lines. There are series only of namespaces that hold a slot or wait at that time.

    Args:
        lines: For each kind of work, its line of right now.
    """

    def __init__(self, lines: Mapping[str, Callable[[], Line]]) -> None:
        self._lines = lines

    def describe(self) -> Iterator[Metric]:
        """Yield the names without their values, for the registry."""
        yield from _families()

    def collect(self) -> Iterator[Metric]:
        """Yield the values of right now."""
        running, waiting, seconds = _families()
        for work, line in self._lines.items():
            now = line()
            for namespace, held in now.held.items():
                running.add_metric((work, namespace), held)
            for namespace, (count, longest) in now.waiting.items():
                waiting.add_metric((work, namespace), count)
                seconds.add_metric((work, namespace), longest)
        yield from (running, waiting, seconds)


def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily]:
    return (
        GaugeMetricFamily("decisionmodel_work_running", "Work that holds a slot.", labels=_LABELS),
        GaugeMetricFamily("decisionmodel_work_waiting", "Work that waits for a slot.", labels=_LABELS),
        GaugeMetricFamily("decisionmodel_work_waiting_seconds", "How long the longest has waited.", labels=_LABELS),
    )

"""A fleet at rest costs the engine nothing and the API server no write."""

from __future__ import annotations

import json
import re

import pytest

from api.keys import GATE_FIELD_MANAGER, GROUP, STACK_FIELD_MANAGER, STATUS_FIELD_MANAGER
from tests.cluster.observing import OWNED_KINDS, Bench
from tools.kubectl import wait_until

pytestmark = pytest.mark.cluster

FLEET = ("one", "two", "three")
PASSES = "controller_runtime_reconcile_total"
OPERATIONS = "decisionmodel_stack_operations_total"
MANAGERS = {STATUS_FIELD_MANAGER, STACK_FIELD_MANAGER, GATE_FIELD_MANAGER}
READS = {"GET", "LIST", "WATCH"}


def test_ready_models_are_looked_at_and_left_alone(bench: Bench) -> None:
    for name in FLEET:
        bench.declare(name)
    for name in FLEET:
        bench.wait_ready(name, 150)
    wait_until_passes_stop(bench)
    operations, traces, requests = bench.metric(OPERATIONS), traces_of_writes(bench), write_requests(bench)
    assert operations > 0
    assert traces

    # Once by the clock: the interval is the same for all, so as many passes as models are one of each.
    before = bench.metric(PASSES)
    wait_for_passes(bench, before + len(FLEET))
    assert write_requests(bench) == requests

    # Once more because something happened that is of no consequence.
    before = bench.metric(PASSES)
    for name in FLEET:
        bench.annotate(name, "example.com/touched", "yes")
    wait_for_passes(bench, before + len(FLEET))

    assert write_requests(bench) == requests + len(FLEET)
    assert traces_of_writes(bench) == traces
    assert bench.metric(OPERATIONS) == operations


def wait_for_passes(bench: Bench, count: float) -> None:
    wait_until(f"{count:g} passes", lambda: bench.metric(PASSES) >= count, 100, every=1)


def wait_until_passes_stop(bench: Bench) -> None:
    """Wait until nothing that the rollouts set in motion brings another pass: two looks in a row see no new one."""
    last = -1.0

    def unchanged() -> bool:
        nonlocal last
        before, last = last, bench.metric(PASSES)
        return last == before

    wait_until("passes to stop", unchanged, 60, every=2)


def write_requests(bench: Bench) -> float:
    """Return how often anybody asked the API server to write a DecisionModel, in vain or not."""
    lines = bench.kubectl.run("get", "--raw", "/metrics").splitlines()
    counted = [line for line in lines if line.startswith("apiserver_request_total{") and f'group="{GROUP}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in counted if _verb(line) not in READS)


def _verb(line: str) -> str:
    match = re.search(r'verb="([A-Z]+)"', line)
    return match[1] if match else ""


def traces_of_writes(bench: Bench) -> set[tuple[str, ...]]:
    """Return what objects say about the reconciler's writes: when each of its field managers last changed them."""
    kinds = f"decisionmodels,{OWNED_KINDS}"
    listed = json.loads(bench.kubectl.run("get", kinds, "-n", bench.namespace, "--show-managed-fields", "-o", "json"))
    return {
        (item["kind"], item["metadata"]["name"], entry["manager"], entry.get("subresource", ""), entry["time"])
        for item in listed["items"]
        for entry in item["metadata"].get("managedFields", ())
        if entry["manager"] in MANAGERS
    }

"""What the benchmark makes of measurements, watched objects and live objects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.bench.figures import Comparison, Spread, comparison_table, median_steps, shares_table
from tools.bench.objects import applicable
from tools.bench.timeline import Milestone, milestones

SECONDS = st.lists(st.floats(0.001, 1000), min_size=1, max_size=9)
TRUE = {"status": "True"}


@given(SECONDS)
def test_a_spread_is_in_order_and_within_the_measurements(seconds: list[float]) -> None:
    spread = Spread.of(seconds)
    assert spread.minimum <= spread.median <= spread.maximum
    assert {spread.minimum, spread.maximum} <= set(seconds)


@given(SECONDS, SECONDS)
def test_the_ratio_turns_over_with_the_ways(ours: list[float], theirs: list[float]) -> None:
    there = Comparison(title="t", ours=("a", tuple(ours)), theirs=("b", tuple(theirs)))
    back = Comparison(title="t", ours=("b", tuple(theirs)), theirs=("a", tuple(ours)))
    assert there.ratio * back.ratio == pytest.approx(1)


def test_a_comparison_reads_as_two_aligned_lines() -> None:
    comparison = Comparison(title="create", ours=("driver", (1.0, 3.0, 2.0)), theirs=("bare CLI", (4.0, 4.0, 40.0)))
    header, ours, theirs = comparison_table([comparison]).splitlines()
    assert header.split() == ["rounds", "min", "median", "max", "ratio"]
    assert ours.split() == ["create:", "driver", "3", "1.00", "s", "2.00", "s", "3.00", "s", "0.50"]
    assert theirs.split() == ["create:", "bare", "CLI", "3", "4.00", "s", "4.00", "s", "40.00", "s"]
    assert comparison.as_json()["ratioOfMedians"] == 0.5


def test_shares_are_of_each_ways_own_whole() -> None:
    rounds = [{"first": 1.0, "second": 3.0}, {"first": 1.0, "second": 3.0}]
    assert median_steps(["first", "second"], rounds) == {"first": 1.0, "second": 3.0}
    lines = shares_table(["first", "second"], {"platform": rounds, "by hand": [{"first": 1.0, "second": 0.0}]})
    assert [line.split() for line in lines.splitlines()[1:]] == [
        ["first", "1.00", "s", "25%", "1.00", "s", "100%"],
        ["second", "3.00", "s", "75%", "0.00", "s", "0%"],
    ]


@pytest.mark.parametrize(
    ("kind", "conditions", "expected"),
    [
        ("Job", [], [Milestone.JOB]),
        ("Job", [{"type": "Complete", **TRUE}], [Milestone.JOB, Milestone.CACHED]),
        ("Pod", [{"type": "ContainersReady", **TRUE}], [Milestone.CONTAINERS_READY]),
        ("Pod", [{"type": "Ready", "status": "False"}], []),
        ("DecisionModel", [{"type": "Ready", **TRUE}], [Milestone.MODEL_READY]),
        ("DecisionModel", [{"type": "Resolved", **TRUE}], []),
        ("Service", [], [Milestone.SERVICE]),
    ],
)
def test_milestones_are_read_from_conditions(
    kind: str, conditions: list[dict[str, str]], expected: list[Milestone]
) -> None:
    obj = {"metadata": {"labels": {"decisionmodel.io/revision": "1"}}, "status": {"conditions": conditions}}
    assert list(milestones(kind, obj)) == expected


def test_the_pod_of_a_prefetch_job_is_no_runtime() -> None:
    pod = {"metadata": {"labels": {}}, "status": {"conditions": [{"type": "Ready", **TRUE}]}}
    assert list(milestones("Pod", pod)) == []


def test_live_objects_lose_what_the_server_and_the_platform_added() -> None:
    labels = {"decisionmodel.io/name": "first"}
    metadata = {"name": "first-1", "namespace": "bench", "labels": labels, "uid": "u", "ownerReferences": [{}]}
    template = {"metadata": {"labels": {**labels, "controller-uid": "c"}}, "spec": {"readinessGates": [{}], "x": 1}}
    live: list[dict[str, Any]] = [
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "status": {}, "spec": {"selector": {}}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": {"m": "YQ=="}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": template}},
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"clusterIP": "10.0.0.1", "ports": []}},
    ]
    by_hand = applicable(live, "first", "hand-1")
    named = {"name": "hand-1-1", "namespace": "bench", "labels": {"decisionmodel.io/name": "hand-1"}}
    assert by_hand["Job"] == {"apiVersion": "batch/v1", "kind": "Job", "metadata": named, "spec": {}}
    assert by_hand["ConfigMap"]["binaryData"] == {"m": "YQ=="}
    assert by_hand["Service"]["spec"] == {"ports": []}
    assert by_hand["Deployment"]["spec"]["template"] == {
        "metadata": {"labels": {"decisionmodel.io/name": "hand-1"}},
        "spec": {"x": 1},
    }

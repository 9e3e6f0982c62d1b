"""An update waits for its models, for the spec they have now, and says what is wrong with those that are not ready."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.conditions import Phase
from components.platform.readiness import ModelsNotReadyError, Progress, Waiting, judge, wait_until_ready

pytestmark = pytest.mark.anyio

MODELS = [("default", "router"), ("models", "triage")]
READY = {"type": "Ready", "status": "True", "reason": "Ready", "message": "1 of 1 replicas"}
NOT_READY = {"type": "Ready", "status": "False", "reason": "Starting", "message": "the model loads"}
DEGRADED = {"type": "Degraded", "status": "True", "reason": "PrefetchFailed", "message": "no such blob"}


def live(phase: Phase | None, *conditions: dict[str, str], generation: int = 2, observed: int = 2) -> dict[str, Any]:
    status = {"phase": phase, "observedGeneration": observed, "conditions": [*conditions]}
    return {
        "apiVersion": "decisionmodel.io/v1alpha1",
        "kind": "DecisionModel",
        "metadata": {"name": "router", "namespace": "default", "generation": generation},
        "spec": {"model": "laya:en"},
        "status": {name: value for name, value in status.items() if value is not None},
    }


@pytest.mark.parametrize(
    ("phase", "progress"),
    [
        (Phase.PENDING, Progress.UNDER_WAY),
        (Phase.RESOLVING, Progress.UNDER_WAY),
        (Phase.CACHING, Progress.UNDER_WAY),
        (Phase.STARTING, Progress.UNDER_WAY),
        (Phase.EVALUATING, Progress.UNDER_WAY),
        (Phase.AWAITING_PROMOTION, Progress.AWAITING_APPROVAL),
        (Phase.PROMOTING, Progress.UNDER_WAY),
        (Phase.READY, Progress.READY),
        (Phase.DEGRADED, Progress.UNDER_WAY),
        (Phase.FAILED, Progress.REJECTED),
        (Phase.ROLLED_BACK, Progress.REJECTED),
        (None, Progress.UNDER_WAY),
    ],
)
def test_how_far_a_phase_is(phase: Phase | None, progress: Progress) -> None:
    assert judge(live(phase)).progress is progress


def course(reconciling: bool, stalled: bool) -> list[dict[str, str]]:
    status = {True: "True", False: "False"}
    told = {"reason": "Caching", "message": "the prefetch Job is running"}
    return [
        {"type": "Reconciling", "status": status[reconciling], **told},
        {"type": "Stalled", "status": status[stalled], **told},
    ]


@pytest.mark.parametrize(
    ("reconciling", "stalled", "progress", "message"),
    [
        (True, False, Progress.UNDER_WAY, "Ready, Caching: the prefetch Job is running"),
        (False, True, Progress.REJECTED, "Ready, Caching: the prefetch Job is running"),
        (False, False, Progress.READY, "Ready, Ready=True Ready: 1 of 1 replicas"),
    ],
)
def test_a_revision_that_serves_is_not_yet_what_the_spec_asks_for(
    reconciling: bool, stalled: bool, progress: Progress, message: str
) -> None:
    verdict = judge(live(Phase.READY, READY, *course(reconciling, stalled)))

    assert (verdict.progress, verdict.message) == (progress, message)


@given(phase=st.sampled_from(Phase), generation=st.integers(1, 9), observed=st.integers(0, 9))
def test_what_a_status_says_of_an_earlier_spec_counts_nothing(phase: Phase, generation: int, observed: int) -> None:
    verdict = judge(live(phase, READY, generation=generation, observed=observed))

    assert (verdict.progress is Progress.UNDER_WAY) >= (observed < generation)
    assert ("not looked at yet" in verdict.message) == (observed < generation)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (None, "does not exist"),
        ({**live(None), "status": {}}, "not looked at yet: is the reconciler running, and does it watch here?"),
        (live(Phase.CACHING), "Caching"),
        (live(Phase.STARTING, NOT_READY), "Starting, Ready=False Starting: the model loads"),
        (live(Phase.ROLLED_BACK, DEGRADED, READY), "RolledBack, Degraded=True PrefetchFailed: no such blob"),
        (live(Phase.FAILED, NOT_READY), "Failed, Ready=False Starting: the model loads"),
        (
            live(Phase.ROLLED_BACK, {**DEGRADED, "status": "False"}, READY),
            "RolledBack, Ready=True Ready: 1 of 1 replicas",
        ),
    ],
)
def test_what_is_told(model: dict[str, Any] | None, message: str) -> None:
    assert judge(model).message == message


class Cluster:
    """Models that change as time goes by; time goes by only when somebody sleeps."""

    def __init__(self, at: Callable[[str, float], dict[str, Any] | None]) -> None:
        self.at = at
        self.seconds = 0.0
        self.reported: list[str] = []
        self.reads = 0

    async def read(self, _namespace: str, name: str) -> dict[str, Any] | None:
        self.reads += 1
        return copy.deepcopy(self.at(name, self.seconds))

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    async def wait(self, timeout: float = 60) -> None:  # noqa: ASYNC109 - the one of the code under test
        waiting = Waiting(read=self.read, sleep=self.sleep, clock=lambda: self.seconds, report=self.reported.append)
        await wait_until_ready(MODELS, waiting, timeout)


async def test_models_that_are_ready_are_looked_at_once() -> None:
    cluster = Cluster(lambda _name, _now: live(Phase.READY, READY))
    await cluster.wait()
    assert (cluster.seconds, cluster.reads) == (0, 2)


async def test_it_ends_with_the_slowest_and_tells_each_change_once() -> None:
    def at(name: str, now: float) -> dict[str, Any]:
        ready = now >= (30 if name == "triage" else 10)
        return live(Phase.READY, READY) if ready else live(Phase.STARTING, NOT_READY)

    cluster = Cluster(at)
    await cluster.wait()
    assert cluster.seconds == 30
    assert cluster.reported == [
        "DecisionModel default/router: Starting, Ready=False Starting: the model loads",
        "DecisionModel models/triage: Starting, Ready=False Starting: the model loads",
        "DecisionModel default/router: Ready, Ready=True Ready: 1 of 1 replicas",
        "DecisionModel models/triage: Ready, Ready=True Ready: 1 of 1 replicas",
    ]


async def test_at_the_end_of_the_time_each_that_is_not_ready_is_told_with_its_condition() -> None:
    cluster = Cluster(lambda name, _now: live(Phase.READY) if name == "router" else live(Phase.STARTING, NOT_READY))
    with pytest.raises(ModelsNotReadyError) as failure:
        await cluster.wait(timeout=20)
    assert str(failure.value).splitlines() == [
        "not ready within 20 s:",
        "  DecisionModel models/triage: Starting, Ready=False Starting: the model loads",
    ]
    assert 20 <= cluster.seconds < 23


async def test_a_rejected_model_ends_the_wait_once_the_others_are_through() -> None:
    def at(name: str, now: float) -> dict[str, Any]:
        if name == "router":
            return live(Phase.FAILED, DEGRADED)
        return live(Phase.READY) if now >= 10 else live(Phase.STARTING)

    cluster = Cluster(at)
    with pytest.raises(ModelsNotReadyError, match=r"default/router: Failed, Degraded=True PrefetchFailed"):
        await cluster.wait()
    assert cluster.seconds == 10

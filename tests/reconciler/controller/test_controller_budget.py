"""The budget of concurrent rollouts: who is granted a slot, in which order, and never more than there are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.controller.budget import RolloutBudget
from reconciler.kernel.resources import ObjectKey
from tests.reconciler.controller.bed import Bed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REVISION = {"hash": "0123456789abcdef"}


def stamp(seconds: int) -> str:
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def model(name: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "default", "name": name}, "spec": {"model": "laya:en"}, "status": status}


def waiting(name: str, since: int) -> dict[str, Any]:
    queued = {"type": "Ready", "status": "False", "reason": "RolloutQueued", "message": ""}
    return model(name, phase="Pending", phaseTransitionTime=stamp(since), conditions=[queued])


def rolling(name: str) -> dict[str, Any]:
    return model(name, candidateRevision=REVISION)


def promoted(name: str, seconds_ago: int) -> dict[str, Any]:
    previous = {"hash": REVISION["hash"], "promotedAt": stamp(-seconds_ago), "revision": REVISION}
    return model(name, previousRevision=previous)


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


@pytest.mark.parametrize(
    ("others", "admitted"),
    [
        ([], True),
        ([rolling("b")], False),
        ([promoted("b", 299)], False),
        ([promoted("b", 300)], True),
        ([model("b", phase="Ready")], True),
        ([waiting("b", -20)], False),
        ([waiting("b", 20)], True),
        ([waiting("b", 0)], True),
        ([waiting("Z", 0)], False),
        ([model("b", phase="Pending", phaseTransitionTime=stamp(-20))], True),
    ],
)
def test_a_slot_is_free_for_the_first_in_line(others: list[dict[str, Any]], *, admitted: bool) -> None:
    assert RolloutBudget(1).admit(key("a"), "r", [waiting("a", 0), *others], NOW) is admitted


def test_who_has_not_waited_yet_is_last_in_line() -> None:
    assert not RolloutBudget(1).admit(key("a"), "r", [model("a"), waiting("b", 0)], NOW)


def test_its_own_candidate_takes_no_second_slot() -> None:
    assert RolloutBudget(1).admit(key("a"), "r", [rolling("a")], NOW)


def test_a_reservation_counts_until_it_is_released() -> None:
    budget = RolloutBudget(1)
    models = [model("a"), model("b")]
    assert budget.admit(key("a"), "r", models, NOW)
    assert budget.admit(key("a"), "s", models, NOW)
    assert not budget.admit(key("b"), "r", models, NOW)
    budget.release(key("a"))
    assert budget.admit(key("b"), "r", models, NOW)


UNREADABLE = {"model": "laya:en", "replicas": "many"}


@pytest.mark.parametrize(
    "other", [rolling("b"), waiting("b", -20), promoted("b", 10)], ids=["rolling out", "in line", "just promoted"]
)
def test_a_model_that_does_not_fit_the_declared_api_holds_nobody_up(other: dict[str, Any]) -> None:
    """Nothing is done for it, so what it has begun never ends."""
    budget = RolloutBudget(1)
    budget.leave_out(key("b"))
    models = [waiting("a", 0), {**other, "spec": UNREADABLE}]
    assert budget.admit(key("a"), "r", models, NOW)
    budget.release(key("a"))
    budget.release(key("b"))
    assert not budget.admit(key("a"), "r", [waiting("a", 0), other], NOW), "it fits again"


def test_who_fits_again_is_back_in_line() -> None:
    budget = RolloutBudget(1)
    models = [waiting("a", -20), waiting("b", 0)]
    budget.leave_out(key("a"))
    assert not budget.admit(key("a"), "r", [*models, rolling("c")], NOW)
    assert not budget.admit(key("b"), "r", models, NOW)
    assert budget.admit(key("a"), "r", models, NOW)


def test_a_window_that_cannot_be_read_holds_nobody_up() -> None:
    models = [waiting("a", 0), {**promoted("b", 10), "spec": UNREADABLE}]
    assert RolloutBudget(1).admit(key("a"), "r", models, NOW)


@given(
    limit=st.integers(1, 3),
    since=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    active=st.integers(0, 3),
    order=st.randoms(use_true_random=False),
)
def test_never_more_than_there_are_and_never_out_of_turn(limit: int, since: list[int], active: int, order: Any) -> None:
    queue = {f"m{number}": seconds for number, seconds in enumerate(since)}
    models = [*(waiting(name, seconds) for name, seconds in queue.items()), *(rolling(f"r{n}") for n in range(active))]
    asking = list(queue)
    order.shuffle(asking)
    budget = RolloutBudget(limit)
    admitted = {name for name in asking if budget.admit(key(name), "r", models, NOW)}
    first = sorted(queue, key=lambda name: (queue[name], name))[: max(0, limit - active)]
    assert admitted == set(first)


def start_with_one_slot(bed: Bed) -> Bed:
    """Start the reconciler of one rollout at a time, in a cluster whose prefetch Jobs do not end yet."""
    bed.options = replace(bed.options, controller=replace(bed.options.controller, max_concurrent_rollouts=1))
    bed.start()
    bed.kubelet.prefetch = lambda _: False
    return bed


async def declare_in_turn(bed: Bed) -> None:
    for name in ("router", "second", "third"):
        bed.declare(name)
        await bed.advance(5)


@pytest.mark.anyio
async def test_one_rollout_at_a_time_in_order_of_arrival(idle_bed: Bed) -> None:
    bed = start_with_one_slot(idle_bed)
    await declare_in_turn(bed)
    assert phases(bed) == ["Caching", "Pending", "Pending"]
    assert len(bed.children) == 2
    bed.kubelet.prefetch = lambda _: None
    await bed.settle()
    await bed.advance(10)
    await bed.advance(10)
    assert phases(bed) == ["Ready", "Ready", "Ready"]


@pytest.mark.anyio
async def test_a_rollout_that_can_no_longer_be_read_gives_its_slot_to_the_next(idle_bed: Bed) -> None:
    bed = start_with_one_slot(idle_bed)
    await declare_in_turn(bed)
    bed.declare("router", replicas="many")
    await bed.advance(61)
    await bed.advance(61)
    assert phases(bed) == ["Caching", "Caching", "Pending"]


def phases(bed: Bed) -> list[str]:
    found = {obj["metadata"]["name"]: obj["status"]["phase"] for obj in bed.parts.watched.models}
    return [found[name] for name in ("router", "second", "third")]


@pytest.mark.anyio
async def test_who_waited_for_a_slot_gets_what_its_tag_stands_for_by_then(idle_bed: Bed) -> None:
    bed = start_with_one_slot(idle_bed)
    bed.declare()
    await bed.settle()
    bed.declare("second", model="laya:multilingual")
    await bed.settle()
    bed.registry.move_tag("laya:multilingual", "laya:en-better")
    await bed.advance(70)
    bed.kubelet.prefetch = lambda _: None
    await bed.settle()
    await bed.advance(10)
    second = next(obj for obj in bed.parts.watched.models if obj["metadata"]["name"] == "second")
    assert second["status"]["stableRevision"]["digest"] == bed.registry.digest("laya:en-better")

"""The budget of concurrent rollouts: who is granted a slot, in which order, and never more than there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.keys import PROMOTE_ANNOTATION
from reconciler.controller.budget import RolloutBudget
from reconciler.controller.watched import DECISION_MODELS
from reconciler.kernel.resources import ObjectKey, object_key
from tests.reconciler.controller.bed import Bed
from tests.reconciler.controller.runtimes import FakeRuntime
from tests.reconciler.controller.stack_engine import Trouble

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


def parked(name: str) -> dict[str, Any]:
    pending = {"type": "Promoted", "status": "False", "reason": "PromotionPending", "message": ""}
    return model(name, phase="AwaitingPromotion", candidateRevision=REVISION, conditions=[pending])


def deleted(obj: dict[str, Any]) -> dict[str, Any]:
    """The object while somebody's finalizer keeps it."""
    return {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": stamp(-10), "finalizers": ["foreign/one"]}}


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
        ([parked("b")], True),
        ([deleted(rolling("b"))], True),
        ([deleted(waiting("b", -20))], True),
        ([deleted(promoted("b", 10))], True),
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


def elsewhere(obj: dict[str, Any], namespace: str) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


def test_namespaces_take_turns_in_the_line() -> None:
    """Whoever came first with ever so many."""
    greedy = [waiting(f"g{number}", number) for number in range(20)]
    models = [*greedy, elsewhere(waiting("late", 50), "other"), elsewhere(waiting("later", 60), "third")]
    late, later = ObjectKey("other", "late"), ObjectKey("third", "later")
    budget = RolloutBudget(3)
    asking = [key(f"g{number}") for number in range(20)] + [later, late]
    assert {each for each in asking if budget.admit(each, "r", models, NOW)} == {key("g0"), late, later}


def test_who_has_slots_lets_others_go_first() -> None:
    models = [rolling("r1"), rolling("r2"), waiting("first", 0), elsewhere(waiting("late", 50), "other")]
    budget = RolloutBudget(3)
    assert not budget.admit(key("first"), "r", models, NOW)
    assert budget.admit(ObjectKey("other", "late"), "r", models, NOW)


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=12),
    st.integers(0, 8),
)
def test_no_namespace_waits_for_more_than_one_rollout_of_each_other(
    limit: int, before: list[tuple[str, int]], started: int
) -> None:
    """However many others bring, and however long they have waited."""
    models = [elsewhere(waiting(f"m{n}", since), namespace) for n, (namespace, since) in enumerate(before)]
    new, budget = ObjectKey("z", "new"), RolloutBudget(limit)
    for turn in range(started + 5):
        if turn == started:
            models.append(elsewhere(waiting("new", 100), "z"))
        asking = [object_key(obj) for obj in models]
        # Everybody asks again and again.
        admitted = {each for _ in range(limit) for each in asking if budget.admit(each, "r", models, NOW)}
        assert len(admitted) == min(limit, len(models))
        if new in admitted:
            return
        # What was admitted ends, and its namespace brings something that has waited for longer than anybody.
        for each in sorted(admitted):
            budget.release(each)
            models = [obj for obj in models if object_key(obj) != each]
            models.append(elsewhere(waiting(f"{each.name}x", -turn), each.namespace))
    pytest.fail("the new namespace has waited for too long")


def promoted_now(name: str) -> dict[str, Any]:
    return promoted(name, 0)


def waiting_first(name: str) -> dict[str, Any]:
    return waiting(name, -100)


@given(
    limit=st.integers(1, 3),
    since=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    active=st.integers(0, 3),
    idle=st.lists(st.sampled_from([rolling, promoted_now, parked, waiting_first]), max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_never_more_than_there_are_and_never_out_of_turn(
    limit: int, since: list[int], active: int, idle: list[Callable[[str], dict[str, Any]]], order: Any
) -> None:
    """Those that are being deleted or wait for a person, whatever they are doing, count for nothing."""
    queue = {f"m{number}": seconds for number, seconds in enumerate(since)}
    models = [*(waiting(name, seconds) for name, seconds in queue.items()), *(rolling(f"r{n}") for n in range(active))]
    models += [parked(f"i{n}") if make is parked else deleted(make(f"i{n}")) for n, make in enumerate(idle)]
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


@pytest.mark.anyio
async def test_a_model_that_is_being_deleted_gives_its_slot_and_its_place_to_the_next(idle_bed: Bed) -> None:
    """However long somebody's finalizer keeps it."""
    bed = start_with_one_slot(idle_bed)
    await declare_in_turn(bed)
    for name in ("router", "second"):
        delete_in_vain(bed, name)
    await bed.settle()
    await bed.advance(61)

    assert phases(bed) == ["Caching", "Pending", "Caching"]
    bed.kubelet.prefetch = lambda _: None
    await bed.settle()
    await bed.advance(10)
    assert phases(bed)[-1] == "Ready"


@pytest.mark.anyio
async def test_what_runs_for_a_model_that_is_being_deleted_ends(bed: Bed) -> None:
    bed.kubelet.adjust = hang
    bed.declare()
    await bed.settle()
    bed.driver.trouble = [Trouble(None)]
    bed.declare("second")
    await bed.settle()
    assert (bed.runtimes.hanging, bed.driver.hanging) == (1, 1)
    for name in ("router", "second"):
        delete_in_vain(bed, name)

    await bed.run_until(lambda: not bed.runtimes.hanging and not bed.driver.hanging)
    await bed.settle()
    performed = len(bed.driver.performed)
    await bed.advance(61)
    await bed.advance(600)
    assert len(bed.driver.performed) == performed, "nothing starts anew"
    assert {bed.parts.background.count(kind) for kind in ("probe", "stack", "evaluate", "resolve")} == {0}


def delete_in_vain(bed: Bed, name: str) -> None:
    bed.edit(DECISION_MODELS, name, lambda obj: obj["metadata"].update(finalizers=["example.com/kept"]))
    bed.delete(name)


def hang(runtime: FakeRuntime) -> None:
    runtime.hangs = True


@pytest.mark.anyio
async def test_a_candidate_that_waits_for_a_person_holds_nobody_up(idle_bed: Bed) -> None:
    bed = start_with_one_slot(idle_bed)
    await park(bed)

    bed.declare("second")
    await bed.settle()
    await bed.advance(10)
    assert phases(bed, "second") == ["Ready"]
    candidate = bed.status.candidate_revision
    assert candidate is not None
    bed.declare(model="laya:multilingual", rollout=MANUAL, annotations={PROMOTE_ANNOTATION: candidate.hash})
    await bed.settle()
    assert bed.selected == candidate.hash, "although the other one watches what it has promoted"


@pytest.mark.anyio
async def test_what_follows_a_parked_candidate_waits_for_a_slot_like_any_other(idle_bed: Bed) -> None:
    bed = start_with_one_slot(idle_bed)
    old = await park(bed)
    bed.kubelet.prefetch = lambda _: False
    bed.declare("second")
    await bed.settle()
    bed.declare(model="laya:en-better", rollout=MANUAL)
    await bed.settle()

    assert phases(bed, "router", "second") == ["Pending", "Caching"]
    assert (bed.condition("Ready")[1], bed.selected) == ("RolloutQueued", old)
    assert bed.status.candidate_revision is None
    bed.delete("second")
    await bed.settle()
    await bed.advance(61)
    assert bed.status.phase == "Caching"


MANUAL = {"promotion": "Manual"}


async def park(bed: Bed) -> str:
    """Have a candidate wait for a person, and return what serves meanwhile."""
    bed.kubelet.prefetch = lambda _: None
    old = await bed.rolled_out(rollout=MANUAL)
    await bed.advance(301)
    bed.declare(model="laya:multilingual", rollout=MANUAL)
    await bed.settle()
    assert bed.status.phase == "AwaitingPromotion"
    return old


def phases(bed: Bed, *names: str) -> list[str]:
    found = {obj["metadata"]["name"]: obj["status"]["phase"] for obj in bed.parts.watched.models}
    return [found[name] for name in names or ("router", "second", "third")]


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

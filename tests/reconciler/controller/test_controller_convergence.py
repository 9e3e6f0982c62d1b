"""What a stack needs next, as a table; and taking additions out of live objects."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from components.desired import DesiredStack, Owner
from components.drift import Cause, Drift
from reconciler.controller.additions import without
from reconciler.controller.convergence import LONGEST_RETRY_SECONDS, Action, Memory, next_step
from reconciler.driver import Failure, FailureReason, OperationKind

DESIRED = DesiredStack(owner=Owner(namespace="default", name="router", uid="u"))
OTHER = replace(DESIRED, owner=replace(DESIRED.owner, uid="v"))
MISSING = Drift("Service", "router", Cause.MISSING)
CHANGED = Drift("Deployment", "router-a", Cause.CHANGED, "spec.replicas")
ADDED = Drift("Deployment", "router-a", Cause.ADDED, "metadata.labels[x]")
UNEXPECTED = Drift("Job", "router-b", Cause.UNEXPECTED)
FOREIGN = Drift("Service", "router", Cause.FOREIGN)
FRESH = Memory()
DONE = Memory(applied=DESIRED, ended_at=-100.0)
ELSEWHERE = Memory(applied=OTHER, ended_at=-100.0)
BROKEN = FRESH.broke(DESIRED, (), Failure(reason=FailureReason.UNREACHABLE, message="m"), -100.0)
UP, REFRESH_UP = OperationKind.UP, OperationKind.REFRESH_UP


@pytest.mark.parametrize(
    ("drift", "memory", "empty", "action", "operation"),
    [
        ((), FRESH, False, Action.NOTHING, None),
        ((), BROKEN, False, Action.NOTHING, None),
        ((FOREIGN,), DONE, False, Action.CONFLICT, None),
        ((FOREIGN, MISSING, ADDED), FRESH, True, Action.CONFLICT, None),
        ((MISSING,), FRESH, True, Action.OPERATE, UP),
        ((MISSING,), FRESH, False, Action.OPERATE, REFRESH_UP),
        ((MISSING,), DONE, False, Action.OPERATE, REFRESH_UP),
        ((MISSING,), ELSEWHERE, False, Action.OPERATE, UP),
        ((MISSING,), BROKEN, True, Action.OPERATE, REFRESH_UP),
        ((CHANGED, ADDED), DONE, False, Action.OPERATE, REFRESH_UP),
        ((ADDED,), DONE, False, Action.PRUNE, None),
        ((ADDED,), FRESH, False, Action.PRUNE, None),
        ((UNEXPECTED,), DONE, False, Action.SWEEP, None),
        ((UNEXPECTED,), FRESH, False, Action.OPERATE, REFRESH_UP),
        ((UNEXPECTED,), ELSEWHERE, False, Action.OPERATE, UP),
        ((UNEXPECTED, MISSING), DONE, False, Action.OPERATE, REFRESH_UP),
    ],
)
def test_the_next_step(
    drift: tuple[Drift, ...], memory: Memory, empty: bool, action: Action, operation: OperationKind | None
) -> None:
    step = next_step(DESIRED, drift, memory, 0.0, empty=empty)
    assert (step.action, step.operation) == (action, operation)


def test_what_was_just_repaired_gets_time_to_show_in_the_cache() -> None:
    memory = FRESH.succeeded(DESIRED, (CHANGED,), 10.0)
    assert next_step(DESIRED, (CHANGED,), memory, 10.5, empty=False).action is Action.WAIT
    assert next_step(DESIRED, (CHANGED,), memory, 12.1, empty=False).operation is REFRESH_UP
    assert next_step(DESIRED, (MISSING,), memory, 10.5, empty=False).operation is REFRESH_UP
    assert next_step(OTHER, (CHANGED,), memory, 10.5, empty=False).operation is UP


def test_a_repair_that_somebody_undoes_every_time_is_repeated_ever_less_often_and_told() -> None:
    """An autoscaler would otherwise cost an operation every few seconds, for ever."""
    memory, now, pauses, told = FRESH, 0.0, [], []
    for _ in range(12):
        memory = memory.succeeded(DESIRED, (CHANGED,), now)
        told.append(memory.contested(now))
        before = now
        while (step := next_step(DESIRED, (CHANGED,), memory, now, empty=False)).action is Action.WAIT:
            now += step.seconds + 1e-3
        pauses.append(round(now - before))
    assert pauses == [2, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert told == [()] * 3 + [(CHANGED,)] * 9
    assert memory.contested(now) == (CHANGED,), "also while nothing differs for a moment"
    assert next_step(DESIRED, (MISSING,), memory, now - 299, empty=False).action is Action.OPERATE
    assert next_step(OTHER, (CHANGED,), memory, now - 299, empty=False).action is Action.OPERATE


def test_after_some_peace_a_repair_comes_at_once_again() -> None:
    memory = FRESH
    for second in range(0, 30, 3):
        memory = memory.succeeded(DESIRED, (CHANGED,), second)
    later = 27.0 + 2 * LONGEST_RETRY_SECONDS
    assert memory.contested(later) == ()
    again = memory.succeeded(DESIRED, (CHANGED,), later)
    assert next_step(DESIRED, (CHANGED,), again, later + 2.1, empty=False).action is Action.OPERATE
    assert again.contested(later) == ()


def test_two_who_undo_different_things_in_turn_are_both_told_of_and_cost_ever_less() -> None:
    """Neither the other's turn nor a failure in between makes a difference new."""
    other = replace(CHANGED, path="metadata.labels")
    turns = [(CHANGED,), (other,), (CHANGED, other)]
    memory, now, operations = FRESH, 0.0, 0
    for second in range(3600):
        now, drift = float(second), turns[second % 3]
        if next_step(DESIRED, drift, memory, now, empty=False).action is Action.WAIT:
            continue
        operations += 1
        failure = Failure(reason=FailureReason.UNREACHABLE, message="m")
        memory = (
            memory.broke(DESIRED, drift, failure, now) if operations % 5 == 0 else memory.succeeded(DESIRED, drift, now)
        )
    assert operations < 60
    assert memory.contested(now) == tuple(sorted((CHANGED, other)))


def test_what_we_change_ourselves_is_no_contest() -> None:
    memory = FRESH
    for second in range(20):
        memory = memory.succeeded((DESIRED, OTHER)[second % 2], (CHANGED,), float(second))
    assert memory.contested(20.0) == ()
    assert next_step(DESIRED, (CHANGED,), memory, 30.0, empty=False).action is Action.OPERATE


def test_pauses_stay_finite_for_ever() -> None:
    contested, failing = FRESH, FRESH
    failure = Failure(reason=FailureReason.UNREACHABLE, message="m")
    for _ in range(3000):
        contested = contested.succeeded(DESIRED, (CHANGED,), 0.0)
        failing = failing.broke(DESIRED, (CHANGED,), failure, 0.0)
    assert contested.contested(0.0) == (CHANGED,)
    assert next_step(DESIRED, (CHANGED,), contested, 299.0, empty=False).seconds == 1.0
    assert failing.retry_at == LONGEST_RETRY_SECONDS


def test_once_nothing_differs_the_next_failure_is_a_first_one() -> None:
    failure = Failure(reason=FailureReason.UNREACHABLE, message="m")
    memory = FRESH
    for _ in range(10):
        memory = memory.broke(DESIRED, (MISSING,), failure, 0.0)
    memory = memory.settled()
    assert memory.failure is None
    assert next_step(DESIRED, (MISSING,), memory, 0.1, empty=True).operation is REFRESH_UP, "nobody knows what it did"
    assert memory.broke(DESIRED, (MISSING,), failure, 10.0).retry_at == 11.0


def test_pauses_double_to_five_minutes_and_end_with_a_success_or_another_wish() -> None:
    failure = Failure(reason=FailureReason.UNREACHABLE, message="m")
    memory, pauses = FRESH, []
    for _ in range(12):
        memory = memory.broke(DESIRED, (MISSING,), failure, 0.0)
        pauses.append(next_step(DESIRED, (MISSING,), memory, 0.0, empty=False).seconds)
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert next_step(OTHER, (MISSING,), memory, 0.0, empty=False).action is Action.OPERATE
    assert memory.broke(OTHER, (), failure, 0.0).failures == 1
    assert memory.succeeded(DESIRED, (), 0.0).failure is None


def test_what_only_a_person_can_mend_is_tried_every_five_minutes() -> None:
    memory = FRESH.broke(DESIRED, (), Failure(reason=FailureReason.POLICY_DENIED, message="m"), 0.0)
    assert memory.retry_at == LONGEST_RETRY_SECONDS


LIVE: dict[str, Any] = {
    "metadata": {"labels": {"decisionmodel.io/name": "router", "decisionmodel.io/x": "y"}},
    "spec": {
        "selector": {"app": "a", "extra.example/key": "b"},
        "containers": [
            {"name": "ollaya", "env": [{"name": "A", "value": "1"}, {"name": "PROXY", "value": "2"}]},
            {"name": "sidecar"},
        ],
    },
}


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("metadata.labels[decisionmodel.io/x]", {"decisionmodel.io/name": "router"}),
        ("spec.selector[extra.example/key]", {"app": "a"}),
        ("spec.containers[ollaya].env[PROXY]", [{"name": "A", "value": "1"}]),
    ],
)
def test_an_addition_is_taken_out_and_nothing_else(path: str, left: object) -> None:
    before = deepcopy(LIVE)
    pruned = without(LIVE, (path,))
    found = {
        "metadata": pruned["metadata"]["labels"],
        "spec.selector": pruned["spec"]["selector"],
        "spec.containers": pruned["spec"]["containers"][0]["env"],
    }
    assert left in found.values()
    assert before == LIVE, "the cache is not touched"
    assert (
        sum(pruned_part != live_part for pruned_part, live_part in zip(pruned.values(), LIVE.values(), strict=True))
        == 1
    )


def test_a_container_that_was_added_goes_as_a_whole() -> None:
    assert [each["name"] for each in without(LIVE, ("spec.containers[sidecar]",))["spec"]["containers"]] == ["ollaya"]


@pytest.mark.parametrize("path", ["spec.nothing[x]", "spec.containers[absent].env[A]", "spec.selector[absent]"])
def test_a_path_that_leads_nowhere_changes_nothing(path: str) -> None:
    assert without(LIVE, (path,)) == LIVE

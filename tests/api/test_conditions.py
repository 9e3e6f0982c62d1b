"""Conditions are kept one per type, and their transition time moves only with their status."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.conditions import (
    Condition,
    ConditionType,
    EventReason,
    Phase,
    Reason,
    find_condition,
    remove_condition,
    set_condition,
)

START = datetime(2026, 1, 1, tzinfo=UTC)

conditions = st.builds(
    Condition,
    type=st.sampled_from(ConditionType),
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.sampled_from(Reason),
    message=st.sampled_from(["", "0/1 Pods model-ready"]),
    observed_generation=st.integers(1, 3),
)


def _condition(status: str, message: str = "") -> Condition:
    return Condition.model_validate({"type": "Ready", "status": status, "reason": "Ready", "message": message})


def test_the_transition_time_moves_only_when_the_status_flips() -> None:
    later, last = START + timedelta(minutes=1), START + timedelta(minutes=2)

    first = set_condition((), _condition("False"), START)
    reworded = set_condition(first, _condition("False", "still"), later)
    flipped = set_condition(reworded, _condition("True"), last)

    assert [item.last_transition_time for item in (first[0], reworded[0], flipped[0])] == [START, START, last]
    assert reworded[0].message == "still"


@given(changes=st.lists(conditions, max_size=12))
def test_any_series_of_changes_leaves_the_newest_of_each_type_in_order(changes: list[Condition]) -> None:
    current: tuple[Condition, ...] = ()
    for minute, change in enumerate(changes):
        current = set_condition(current, change, START + timedelta(minutes=minute))

    newest = {change.type: change for change in changes}
    assert [item.type for item in current] == sorted(newest)
    for item in current:
        assert item.model_copy(update={"last_transition_time": None}) == newest[item.type]
        since = (item.last_transition_time or START) - START
        last_flip = _last_flip([change for change in changes if change.type == item.type], changes)
        assert since == timedelta(minutes=last_flip)


def _last_flip(of_type: list[Condition], changes: list[Condition]) -> int:
    """Return the index in `changes` at which the status of one type last became what it is."""
    indices = [index for index, change in enumerate(changes) if change.type == of_type[0].type]
    last = indices[0]
    for before, after in itertools.pairwise(indices):
        if changes[before].status != changes[after].status:
            last = after
    return last


@given(changes=st.lists(conditions, max_size=6), new=conditions)
def test_setting_the_same_condition_again_changes_nothing(changes: list[Condition], new: Condition) -> None:
    current: tuple[Condition, ...] = ()
    for change in (*changes, new):
        current = set_condition(current, change, START)

    assert set_condition(current, new, START + timedelta(hours=1)) == current


def test_find_and_remove() -> None:
    current = set_condition((), _condition("True"), START)

    assert find_condition(current, ConditionType.READY) == current[0]
    assert find_condition(current, ConditionType.CACHED) is None
    assert remove_condition(current, ConditionType.READY) == ()
    assert remove_condition(current, ConditionType.CACHED) == current


def test_a_message_longer_than_the_api_takes_is_cut() -> None:
    (settled,) = set_condition((), _condition("True", "x" * 40_000), START)

    assert len(settled.message) == 32768


def test_conditions_are_written_as_the_api_demands() -> None:
    (settled,) = set_condition((), _condition("True"), START + timedelta(milliseconds=1500))

    assert settled.dump() == {
        "lastTransitionTime": "2026-01-01T00:00:01Z",
        "message": "",
        "reason": "Ready",
        "status": "True",
        "type": "Ready",
    }


def test_there_are_eleven_phases() -> None:
    assert len(Phase) == 11


@pytest.mark.parametrize(
    ("reason", "type_"),
    [(EventReason.PROMOTED, "Normal"), (EventReason.ROLLED_BACK, "Warning"), (EventReason("StoreLost"), "Warning")],
)
def test_events_know_how_loud_they_are(reason: EventReason, type_: str) -> None:
    assert reason.type == type_


def test_event_reasons_are_those_of_the_contract() -> None:
    warnings = {reason for reason in EventReason if reason.type == "Warning"}

    assert len(EventReason) == 41
    assert len(warnings) == 23

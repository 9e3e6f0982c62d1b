"""The fair queue: whatever tenants do, none waits for ever, no slot is idle for nothing, and none is lent twice."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.turns import URGENT_TURNS, FairQueue, Turn

TENANTS = st.sampled_from(["a", "b", "c", "d"])
ACTIONS = st.one_of(
    st.tuples(st.just("join"), TENANTS, st.booleans()),
    st.tuples(st.just("leave"), TENANTS, st.booleans()),
    st.tuples(st.just("end"), TENANTS, st.booleans()),
)


class Shop:
    """A queue in use; everybody who may have a slot gets it at once."""

    def __init__(self, size: int, *, reserve: bool) -> None:
        self.size = size
        self.reserve = reserve
        self.queue = FairQueue(size, reserve=reserve)
        self.waiting: list[Turn] = []
        self.held: Counter[str] = Counter()
        self.served: list[Turn] = []

    def act(self, action: str, tenant: str, urgent: bool) -> None:
        mine = [turn for turn in self.waiting if turn.tenant == tenant]
        if action == "join":
            self.waiting.append(self.queue.join(tenant, 0.0, urgent=urgent))
        elif action == "leave" and mine:
            self.queue.leave(mine[-1])
            self.waiting.remove(mine[-1])
        elif action == "end" and self.held[tenant]:
            self.held[tenant] -= 1
            self.queue.give_back(tenant)
        self.grant()

    def grant(self) -> None:
        while (turn := self.queue.grant()) is not None:
            self.waiting.remove(turn)
            self.held[turn.tenant] += 1
            self.served.append(turn)

    @property
    def free(self) -> int:
        return self.size - self.held.total()


@given(st.integers(1, 9), st.booleans(), st.lists(ACTIONS, max_size=80))
def test_slots_are_never_too_many_and_never_idle_while_somebody_may_have_one(
    size: int, reserve: bool, actions: list[tuple[str, str, bool]]
) -> None:
    shop = Shop(size, reserve=reserve)
    for action in actions:
        shop.act(*action)
        assert 0 <= shop.free <= size
        assert shop.queue.held() == {tenant: held for tenant, held in shop.held.items() if held}
        told = {tenant: count for tenant, (count, _) in shop.queue.waiting().items()}
        assert told == Counter(turn.tenant for turn in shop.waiting)
        for turn in shop.waiting:
            assert not shop.free or (reserve and shop.held[turn.tenant] > 0), "who holds none gets what is free"
            assert reserve or not shop.free, "no slot is idle while anybody waits"


@given(st.integers(1, 9), st.booleans(), st.lists(ACTIONS, max_size=60))
def test_when_everything_ends_everybody_has_had_a_turn(
    size: int, reserve: bool, actions: list[tuple[str, str, bool]]
) -> None:
    shop = Shop(size, reserve=reserve)
    for action in actions:
        shop.act(*action)
    while shop.held.total():
        for tenant in [*shop.held.elements()]:
            shop.act("end", tenant, False)
    assert not shop.waiting


@settings(max_examples=200)
@given(
    st.integers(1, 4),
    st.lists(st.tuples(TENANTS, st.booleans()), max_size=30),
    st.integers(0, 40),
    st.booleans(),
)
def test_no_tenant_waits_for_more_than_a_few_turns_of_each_other(
    size: int, before: list[tuple[str, bool]], ended: int, urgent: bool
) -> None:
    """Others never stop coming: each keeps as many waiting as it likes, in a hurry or not."""
    shop = Shop(size, reserve=False)
    for tenant, hurry in [*before, *((tenant, urgent) for tenant in "abcd" for _ in range(40))]:
        shop.act("join", tenant, hurry)
    for _ in range(ended):
        end_one(shop)
    mine = shop.queue.join("new", 0.0)
    shop.waiting.append(mine)
    shop.grant()
    turns = 0
    while mine in shop.waiting:
        end_one(shop)
        turns += 1
        assert turns <= 4 * (URGENT_TURNS + 2)
    if not urgent and not any(hurry for _, hurry in before):
        assert turns <= 4 * 2


def end_one(shop: Shop) -> None:
    """The longest under way ends, and its tenant comes with something new."""
    turn = shop.served[len(shop.served) - shop.held.total()]
    shop.act("end", turn.tenant, False)
    shop.act("join", turn.tenant, not turn.relaxed)


@given(st.integers(2, 64), st.integers(1, 200))
def test_work_that_never_ends_leaves_a_slot_for_each_of_many_tenants(size: int, greedy: int) -> None:
    shop = Shop(size, reserve=True)
    for _ in range(greedy):
        shop.act("join", "greedy", True)
    assert shop.free >= 1
    assert shop.held["greedy"] == min(greedy, max(1, most(size)))
    shop.act("join", "other", False)
    assert shop.held["other"] == 1


def most(size: int) -> int:
    """The most slots that one tenant alone may hold of so many."""
    return next(held for held in range(1, size + 1) if size - held <= 1 or held >= 3 * (size - held))


@pytest.mark.parametrize(("size", "alone"), [(2, 1), (16, 12), (32, 24), (64, 48)])
def test_one_tenant_alone_may_hold_three_quarters(size: int, alone: int) -> None:
    shop = Shop(size, reserve=True)
    for _ in range(100):
        shop.act("join", "a", False)
    assert shop.held["a"] == alone


def test_tenants_take_turns_whoever_came_with_more() -> None:
    shop = Shop(1, reserve=False)
    for tenant in "aaaabbc":
        shop.act("join", tenant, False)
    while shop.held.total():
        shop.act("end", shop.served[-1].tenant, False)
    assert "".join(turn.tenant for turn in shop.served) == "abcabaa"


def test_who_is_in_a_hurry_goes_first_until_others_have_waited_long_enough() -> None:
    shop = Shop(1, reserve=False)
    for _ in range(4 * URGENT_TURNS):
        shop.act("join", "a", True)
    shop.act("join", "b", False)
    while shop.waiting:
        shop.act("end", shop.served[-1].tenant, False)
    order = "".join(turn.tenant for turn in shop.served)
    assert URGENT_TURNS <= order.index("b") <= URGENT_TURNS + 2

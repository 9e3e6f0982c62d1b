"""Whether a run comes to rest when nobody disturbs it any more, and what is left then (spec sections 5.1 and 5.8)."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from api.conditions import Phase
from tools.model_checker.cluster import NOTHING, Pods, Store
from tools.model_checker.fair import World, fair_round, undisturbed
from tools.model_checker.judge import Judge, Known
from tools.model_checker.obstacle import Obstacle
from tools.model_checker.scenario import NAMES
from tools.model_checker.state import State
from tools.model_checker.violation import Property, Violation

LONGEST = 60
"""Fair rounds within which every run rests: a rollout and the deadlines of its phases take about a dozen."""

_RESTING = {Phase.READY, Phase.DEGRADED, Phase.FAILED, Phase.ROLLED_BACK, Phase.AWAITING_PROMOTION}


class Unrest(NamedTuple):
    """What is wrong with how a run ends, and the steps that lead there."""

    violation: Violation
    labels: tuple[str, ...]


class Rest:
    """Follows states to their rest; what was followed once is remembered."""

    def __init__(self, judge: Judge, checked: AbstractSet[Property]) -> None:
        self._judge = judge
        self._checked = checked
        self._restful: dict[World, set[State]] = {world: set() for world in World}

    def unrest(self, state: State) -> Unrest | None:
        """Return what is wrong with how a run ends that nobody disturbs from `state` on."""
        for world in World:
            if found := self._follow(undisturbed(state), world):
                return found
        return None

    def of(self, state: State) -> State:
        """Return the rest that the state comes to in a helpful world; where it never rests, its last state."""
        for _ in range(LONGEST):
            *_, last = fair_round(self._judge, state, World.HELPFUL)
            if last.state == state:
                break
            state = last.state
        return state

    def _follow(self, state: State, world: World) -> Unrest | None:
        seen: set[State] = set()
        labels = [f"undisturbed from here on, in a {world} world:"]
        while state not in self._restful[world]:
            if state in seen or len(seen) == LONGEST:
                phase = self._judge.status(state.status).phase
                problem = "it goes round in circles" if state in seen else f"there is none within {LONGEST} rounds"
                return Unrest(Violation(Property.REST, f"{problem} (phase {phase})"), tuple(labels))
            seen.add(state)
            for step in fair_round(self._judge, state, world):
                labels.append(step.label)
                if step.violation is not None and step.violation.broken in self._checked:
                    return Unrest(step.violation, tuple(labels))
            if step.state == state:
                if violation := self._wrong(state, world):
                    return Unrest(violation, tuple(labels))
                break
            state = step.state
        self._restful[world] |= seen
        return None

    def _wrong(self, state: State, world: World) -> Violation | None:
        """Return the checked property that a state at rest breaks."""
        return next((each for each in self._shortcomings(state, world) if each.broken in self._checked), None)

    def _shortcomings(self, state: State, world: World) -> Iterator[Violation]:
        status, known = self._judge.status(state.status), self._judge.known(state.status)
        if status.phase not in _RESTING:
            yield Violation(Property.REST, f"it rests in phase {status.phase}")
        if state.owed:
            yield Violation(Property.TELLING, "a promotion was never told")
        if state.cluster.service != _server(state, known):
            yield Violation(Property.REST, "it rests with the Service neither on the stable nor on what stands in")
        if world is World.HELPFUL and not self._serves(state):
            yield Violation(Property.REST, "it rests without all Pods of the stable")
        waits = status.phase is Phase.AWAITING_PROMOTION or state.obstacle is Obstacle.KEY
        in_use = {known.stable, known.candidate if waits else None}
        if world is World.STUCK and known.stable is not None and state.cluster.revisions[known.stable].ready == 0:
            in_use.add(known.previous)
        for index, objects in enumerate(state.cluster.revisions):
            if objects != NOTHING and index not in in_use:
                yield Violation(Property.LEFTOVERS, f"it rests with objects of {NAMES[index]}")

    def _serves(self, state: State) -> bool:
        """Whether the stable has all its Pods, or a person has to act first (spec section 8.1).

        No store is refilled beside a candidate, and one that waits for a person waits for ever.
        """
        known = self._judge.known(state.status)
        objects = NOTHING if known.stable is None else state.cluster.revisions[known.stable]
        if known.stable is None or objects.pods is Pods.ALL_READY:
            return True
        if known.candidate is not None:
            return not objects.filled
        recovery = self._judge.status(state.status).store_recovery
        exhausted = recovery is not None and recovery.exhausted
        return exhausted or objects.store is Store.TERMINATING


def _server(state: State, known: Known) -> int | None:
    """Return whom traffic belongs to: the stable, or what it replaced where only that has Pods."""
    revisions = state.cluster.revisions
    if known.stable is None or known.previous is None or revisions[known.stable].ready:
        return known.stable
    return known.previous if revisions[known.previous].ready else known.stable

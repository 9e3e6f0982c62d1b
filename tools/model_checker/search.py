"""The search: all states within a number of disturbances, fewest disturbances and fewest steps first."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeGuard

from reconciler.rollout import decide
from tools.model_checker.environment import disturbances, progress
from tools.model_checker.judge import Decide, Judge
from tools.model_checker.passes import passes
from tools.model_checker.properties import state_violation
from tools.model_checker.rest import Rest, Unrest
from tools.model_checker.scenario import Spec
from tools.model_checker.slot import Slot
from tools.model_checker.state import FIRST, State
from tools.model_checker.step import Step
from tools.model_checker.violation import Property, Violation


class Start(StrEnum):
    """Where runs begin."""

    NOTHING = "nothing"
    """A DecisionModel was created, and asks for A."""
    SERVING = "serving"
    """A has served for long, and the spec was just edited to ask for B."""
    RECREATE = "recreate"
    """As `SERVING`, with strategy Recreate."""
    EVALUATED = "evaluated"
    """As `SERVING`, with an evaluation that every candidate must pass."""
    APPROVED = "approved"
    """As `EVALUATED`, and a person approves what has passed."""
    QUEUED = "queued"
    """As `SERVING`, while another DecisionModel has the only rollout slot; a person approves what is ready."""


_EDITED = {
    Start.RECREATE: Spec(recreate=True),
    Start.EVALUATED: Spec(evaluated=True),
    Start.APPROVED: Spec(evaluated=True, manual=True),
    Start.QUEUED: Spec(manual=True),
}
"""What the edit that asks for B brings besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a search found.

    Attributes:
        depth: How many disturbances a run had at most.
        states: Different states that were checked.
        transitions: Steps between them.
        seconds: How long it took.
        violation: The property that is broken; None if every one holds.
        trace: The shortest run that breaks it, in words.
        complete: Whether everything within the depth was checked.
    """

    depth: int
    states: int
    transitions: int
    seconds: float
    violation: Violation | None = None
    trace: tuple[str, ...] = ()
    complete: bool = True

    def __str__(self) -> str:
        size = f"{self.states} states, {self.transitions} transitions, {self.seconds:.1f} s"
        extent = "all" if self.complete else "not all"
        lines = [f"depth {self.depth}: {size} ({extent} of the depth)"]
        if self.violation is not None:
            lines.append(f"VIOLATED {self.violation}")
            lines += [f"{number:3} {label}" for number, label in enumerate(self.trace, 1)]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is checked, and how far.

    Attributes:
        depth: How many disturbances a run has at most.
        start: Where runs begin.
        ignored: Properties that may be broken.
        limit: How many states are checked at most; None for all.
    """

    depth: int
    start: Start = Start.NOTHING
    ignored: AbstractSet[Property] = frozenset()
    limit: int | None = None

    def breaks(self, violation: Violation | None) -> TypeGuard[Violation]:
        """Whether something is broken that is checked."""
        return violation is not None and violation.broken not in self.ignored


def check(scope: Scope, decide: Decide = decide) -> Report:
    """Check every state in the scope until a property is broken; `decide` is the code that is checked."""
    return _Search(Judge(decide), scope).run()


def first_state(start: Start, rest: Rest) -> State:
    """Return the state in which runs from `start` begin."""
    if start is Start.NOTHING:
        return FIRST
    spec = _EDITED.get(start, Spec())._replace(model=1)
    slot = Slot.TAKEN if start is Start.QUEUED else Slot.UNLIMITED
    return rest.of(FIRST)._replace(spec=spec, slot=slot)


class _Search:
    def __init__(self, judge: Judge, scope: Scope) -> None:
        self._judge = judge
        self._scope = scope
        self._rest = Rest(judge, set(Property) - scope.ignored)
        self._came_from: dict[State, tuple[State, str] | None] = {}
        self._transitions = 0
        self._began = time.monotonic()

    def run(self) -> Report:
        ties, first = itertools.count(), first_state(self._scope.start, self._rest)
        frontier: list[tuple[int, int, int, State, tuple[State, str] | None]] = [(0, 0, next(ties), first, None)]
        while frontier:
            disturbed, steps, _, state, origin = heapq.heappop(frontier)
            if state in self._came_from:
                continue
            if len(self._came_from) == self._scope.limit:
                return self._report(complete=False)
            self._came_from[state] = origin
            if found := self._unrest(state):
                return self._report(found.violation, (*self._trace(state), *found.labels))
            for step in self._steps(state, disturbable=disturbed < self._scope.depth):
                self._transitions += 1
                cost = disturbed + step.disturbs
                if self._scope.breaks(step.violation):
                    return self._report(step.violation, (*self._trace(state), step.label))
                if step.state not in self._came_from:
                    heapq.heappush(frontier, (cost, steps + 1, next(ties), step.state, (state, step.label)))
        return self._report()

    def _steps(self, state: State, *, disturbable: bool) -> Iterator[Step]:
        yield from progress(self._judge, state)
        yield from (step for step in passes(self._judge, state) if disturbable or not step.disturbs)
        if disturbable:
            yield from disturbances(self._judge, state)

    def _unrest(self, state: State) -> Unrest | None:
        """Return what is wrong with the state itself, or with how it ends."""
        violation = state_violation(self._judge, state)
        return Unrest(violation, ()) if self._scope.breaks(violation) else self._rest.unrest(state)

    def _trace(self, state: State) -> tuple[str, ...]:
        labels: list[str] = []
        origin = self._came_from[state]
        while origin is not None:
            state, label = origin
            labels.append(label)
            origin = self._came_from[state]
        return tuple(reversed(labels))

    def _report(
        self, violation: Violation | None = None, trace: tuple[str, ...] = (), *, complete: bool = True
    ) -> Report:
        return Report(
            depth=self._scope.depth,
            states=len(self._came_from),
            transitions=self._transitions,
            seconds=time.monotonic() - self._began,
            violation=violation,
            trace=trace,
            complete=complete and violation is None,
        )

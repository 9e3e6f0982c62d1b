"""How a run goes on when nobody disturbs it any more: everything that can happen does, round by round."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from enum import StrEnum

from api.status import EvaluationResult
from tools.model_checker.cluster import AGAINST_THE_REVISION, Pods, with_pods
from tools.model_checker.environment import TICKS, Move, elapsed, engine_writes, moves
from tools.model_checker.judge import Judge
from tools.model_checker.passes import whole_pass
from tools.model_checker.scenario import NAMES, Registry
from tools.model_checker.slot import Slot
from tools.model_checker.state import State
from tools.model_checker.step import Step


class World(StrEnum):
    """How the cluster behaves."""

    HELPFUL = "helpful"
    """Every Job ends well and every Pod becomes ready."""
    STUCK = "stuck"
    """Only engine, clock, reconciler and garbage collector go on, and Pods end that have to."""


def undisturbed(state: State) -> State:
    """Return the state when the watch is back, the registry answers, and other rollouts have ended."""
    registry = Registry.AS_EVER if state.registry is Registry.FAILING else state.registry
    slot = Slot.FREE if state.slot is Slot.TAKEN else state.slot
    return state._replace(seen=None, registry=registry, slot=slot)


def fair_round(judge: Judge, state: State, world: World) -> Iterator[Step]:
    """Yield the steps of one round: the engine ends, the cluster moves, a pass is made, time passes."""
    before = state
    while write := next(engine_writes(judge, state), None):
        yield write
        state = write.state
    for step in _cluster_moves(state, world):
        yield step
        state = step.state
    scored = state.scoring.ended(EvaluationResult.PASSED)
    if world is World.HELPFUL and scored != state.scoring:
        state = state._replace(scoring=scored)
        yield Step("the candidate passes", state)
    made = whole_pass(judge, state)
    yield made
    # A long wait only when nothing else happens: deadlines must not cut short what would end well.
    for seconds in TICKS[:1] if made.state != before else TICKS[1:]:
        state = elapsed(judge, state if seconds == TICKS[-1] else made.state, seconds)
        yield Step(f"{seconds} s pass", state)


def _cluster_moves(state: State, world: World) -> Iterator[Step]:
    allowed: AbstractSet[Move] = set(Move) if world is World.HELPFUL else {Move.STORE_GONE, Move.PODS_STOPPED}
    for index, name in enumerate(NAMES):
        if world is World.HELPFUL and state.cluster.revisions[index].pods in AGAINST_THE_REVISION:
            healed = with_pods(state.cluster.revisions[index], Pods.NONE)
            state = state._replace(cluster=state.cluster.with_revision(index, healed))
            yield Step(f"Pods of {name} replaced", state)
        while move := next((each for each in moves(state.cluster.revisions[index]) if each[0] in allowed), None):
            state = state._replace(cluster=state.cluster.with_revision(index, move[1]))
            yield Step(f"{move[0]} of {name}", state)

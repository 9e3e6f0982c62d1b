"""One state of the whole: what is declared, persisted, and live, what the process remembers, and what was proved."""

from __future__ import annotations

from typing import NamedTuple

from tools.model_checker.cluster import NOTHING, Cluster
from tools.model_checker.obstacle import Obstacle
from tools.model_checker.plan import Plan
from tools.model_checker.scenario import REVISIONS, Registry, Spec
from tools.model_checker.scoring import Scoring
from tools.model_checker.slot import Slot


class State(NamedTuple):
    """A state.

    Attributes:
        spec: What is declared.
        registry: What the registry answers.
        status: The persisted status, as a number that `Judge` gave it.
        cluster: What is live.
        seen: What the watch cache shows while its watch is lost; None while it shows what is live.
        operation: What the engine is converging to.
        broken: Whether the last operation failed.
        known: Whether this process has made a pass already.
        proved: Revisions that were promoted with proof and that somebody may still depend on.
        owed: Whether the last persisted promotion was not told yet.
        scoring: The evaluation, where there is one.
        slot: The rollout slot that others want, too.
        obstacle: What a person has to mend before anything goes further.
        lost: Whether somebody emptied the status, and what was under way then has not come to an end yet.
    """

    spec: Spec
    registry: Registry
    status: int
    cluster: Cluster
    seen: Cluster | None = None
    operation: Plan | None = None
    broken: bool = False
    known: bool = False
    proved: frozenset[int] = frozenset()
    owed: bool = False
    scoring: Scoring = Scoring()
    slot: Slot = Slot.UNLIMITED
    obstacle: Obstacle = Obstacle.NONE
    lost: bool = False

    @property
    def view(self) -> Cluster:
        """What a pass would see of the cluster."""
        return self.cluster if self.seen is None else self.seen


FIRST = State(spec=Spec(), registry=Registry.AS_EVER, status=0, cluster=Cluster(revisions=(NOTHING,) * len(REVISIONS)))
"""A DecisionModel that was just created."""

"""Long runs with any number of disturbances: what the model checker shows of short ones must hold of them, too."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reconciler.rollout import decide
from tools.model_checker.environment import disturbances, progress
from tools.model_checker.fair import World, fair_round
from tools.model_checker.judge import Judge
from tools.model_checker.passes import passes
from tools.model_checker.properties import state_violation
from tools.model_checker.rest import Rest
from tools.model_checker.search import Start, first_state
from tools.model_checker.state import FIRST
from tools.model_checker.step import Step
from tools.model_checker.violation import Property

JUDGE = Judge(decide)
"""Shared by all runs: equal questions are decided once."""
REST = Rest(JUDGE, set(Property) - {Property.LEFTOVERS})
ANY = st.integers(0, 999)


class Runs(RuleBasedStateMachine):
    """One of the steps that are possible, again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.state = FIRST
        self.labels: list[str] = []

    def take(self, steps: Iterable[Step], number: int) -> None:
        possible = list(steps)
        if not possible:
            return
        step = possible[number % len(possible)]
        self.labels.append(step.label)
        assert step.violation is None, f"{step.violation}: {self.labels}"
        self.state = step.state

    @initialize(start=st.sampled_from(Start))
    def begins(self, start: Start) -> None:
        self.state = first_state(start, REST)

    @rule(number=ANY)
    def goes_on(self, number: int) -> None:
        self.take(progress(JUDGE, self.state), number)

    @rule(rounds=st.integers(1, 4))
    def goes_on_well(self, rounds: int) -> None:
        for _ in range(rounds):
            for step in fair_round(JUDGE, self.state, World.HELPFUL):
                self.take([step], 0)

    @rule()
    def passes(self) -> None:
        self.take((step for step in passes(JUDGE, self.state) if not step.disturbs), 0)

    @rule(number=ANY)
    def pass_is_cut_short(self, number: int) -> None:
        self.take((step for step in passes(JUDGE, self.state) if step.disturbs), number)

    @rule(number=ANY)
    def is_disturbed(self, number: int) -> None:
        self.take(disturbances(JUDGE, self.state), number)

    @invariant()
    def traffic_is_on_what_proved_itself(self) -> None:
        violation = state_violation(JUDGE, self.state)
        assert violation is None, f"{violation}: {self.labels}"

    def teardown(self) -> None:
        """Whatever happened: left alone, the run comes to rest."""
        unrest = REST.unrest(self.state)
        assert unrest is None, f"{unrest}: {self.labels}"


Runs.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    # The same runs every time: searching for new faults is what the command is for.
    derandomize=True,
    # The labels tell the run; making it shorter is the model checker's business.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
TestRuns = Runs.TestCase

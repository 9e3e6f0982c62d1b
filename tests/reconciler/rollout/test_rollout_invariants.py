"""Whatever happens to a DecisionModel and its cluster, traffic stays on a revision that was proved."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from api.conditions import Phase
from api.status import RevisionStatus
from reconciler.rollout import PrefetchFacts, PrefetchState, RevisionFacts, ServingFacts, StoreState
from tests.reconciler.rollout.worlds import World, revision

MODELS = ("laya:en", "laya:multilingual", "nli:latest")


class Rollouts(RuleBasedStateMachine):
    """Edits, failures, lost switches, lost Pods and clock jumps, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.proved: set[str] = set()
        self.promotions = 0
        self.wanted = self.world.wants("laya:en")

    def pass_once(self) -> None:
        before = self.world.status.stable_revision
        self.world.reconcile()
        after = self.world.status.stable_revision
        if after is not None and (before is None or before.hash != after.hash):
            self.promotions += self.world.said[-1:] == ["Promoted"]

    @rule(model=st.sampled_from(MODELS))
    def edit(self, model: str) -> None:
        self.wanted = self.world.wants(model)
        self.pass_once()

    @rule()
    def reconcile(self) -> None:
        self.pass_once()

    @rule(seconds=st.sampled_from([1, 29, 31, 299, 301, 1801]))
    def wait(self, seconds: int) -> None:
        self.world.passes(seconds)
        self.pass_once()

    @rule(state=st.sampled_from([PrefetchState.COMPLETE, PrefetchState.FAILED]))
    def job_ends(self, state: PrefetchState) -> None:
        for name, facts in self.world.revisions.items():
            if facts.prefetch.state is PrefetchState.RUNNING:
                outcome = PrefetchFacts(state=state, failure="Transient" if state is PrefetchState.FAILED else "")
                self.world.revisions[name] = replace(facts, prefetch=replace(outcome, uid=facts.prefetch.uid))
        self.pass_once()

    @precondition(lambda self: self.world.status.stable_revision is not None)
    @rule(state=st.sampled_from([StoreState.ABSENT, StoreState.TERMINATING]))
    def store_is_deleted(self, state: StoreState) -> None:
        stable = self.world.status.stable_revision
        assert stable is not None
        if stable.hash in self.world.revisions:
            self.world.store_is(stable, state)
        self.pass_once()

    @rule(model=st.sampled_from(MODELS), ready=st.integers(0, 1), crash=st.booleans())
    def pods_change(self, model: str, ready: int, crash: bool) -> None:
        of = revision(model)
        facts = self.world.revisions.get(of.hash)
        if facts is not None and facts.serving.exists:
            self.world.pods(of, ServingFacts(exists=True, model_ready=ready, crash_looping=crash and not ready))
            if ready:
                self.proved.add(of.hash)
        self.pass_once()

    @precondition(lambda self: self.world.status.previous_revision is not None)
    @rule()
    def switch_is_lost(self) -> None:
        """The process died between the status write and the switch of the Service."""
        previous = self.world.status.previous_revision
        assert previous is not None
        if previous.hash in self.world.revisions:
            self.world.service = previous.hash

    @invariant()
    def traffic_is_on_a_proved_revision_that_exists(self) -> None:
        if self.world.service is None:
            return
        assert self.world.service in self.proved
        assert self.world.service in self.world.revisions
        assert self.world.revisions[self.world.service].serving.exists

    @invariant()
    def what_the_service_selects_is_known_to_the_status(self) -> None:
        status = self.world.status
        known: list[RevisionStatus | None] = [status.stable_revision, status.failed_revision]
        known.append(status.previous_revision.revision if status.previous_revision else None)
        hashes = {each.hash for each in known if each is not None}
        assert self.world.service is None or self.world.service in hashes

    @invariant()
    def a_stable_is_never_lost(self) -> None:
        if self.proved and self.promotions:
            assert self.world.status.stable_revision is not None

    @invariant()
    def promotions_are_told_as_often_as_they_happen(self) -> None:
        assert self.world.said.count("Promoted") == self.promotions

    @invariant()
    def pods_start_only_on_a_filled_store(self) -> None:
        for store, job in self.world.started_on.values():
            assert store is StoreState.PRESENT
            assert job.state is PrefetchState.COMPLETE
            assert not job.stale

    @invariant()
    def at_most_three_revisions_exist(self) -> None:
        assert len(self.world.revisions) <= 3

    def teardown(self) -> None:
        """Without new input every state comes to rest, and all that remains is what serves."""
        for _ in range(8):
            for name, facts in self.world.revisions.items():
                ended = replace(facts.prefetch, state=PrefetchState.COMPLETE)
                store = StoreState.ABSENT if facts.store is StoreState.TERMINATING else facts.store
                pods = replace(facts.serving, model_ready=1, crash_looping=False) if facts.serving.exists else None
                self.world.revisions[name] = RevisionFacts(store=store, prefetch=ended, serving=pods or facts.serving)
            self.world.passes(400)
            self.world.reconcile()
        assert self.world.status.phase in {Phase.READY, Phase.ROLLED_BACK, Phase.FAILED}
        stable = self.world.status.stable_revision
        assert set(self.world.revisions) == ({stable.hash} if stable else set())
        assert self.world.service == (stable.hash if stable else None)


Rollouts.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
TestRollouts = Rollouts.TestCase

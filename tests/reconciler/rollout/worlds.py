"""Values for rollout tests: DecisionModels, revisions, facts, and a small world that obeys decisions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from api.conditions import Condition, ConditionType, find_condition
from api.decisionmodel import DecisionModel
from api.status import DecisionModelStatus, RevisionStatus
from reconciler.rollout import (
    Decision,
    Facts,
    PrefetchFacts,
    PrefetchState,
    Resolved,
    RevisionFacts,
    ServingFacts,
    StoreState,
    decide,
)
from reconciler.rollout.facts import Resolution

START = datetime(2026, 1, 1, tzinfo=UTC)

CACHED = RevisionFacts(store=StoreState.PRESENT, prefetch=PrefetchFacts(state=PrefetchState.COMPLETE))


def serving(ready: int) -> RevisionFacts:
    """A cached revision with so many model-ready Pods."""
    return replace(CACHED, serving=ServingFacts(exists=True, model_ready=ready))


def decision_model(
    spec: dict[str, Any] | None = None,
    status: DecisionModelStatus | None = None,
    annotations: dict[str, str] | None = None,
    generation: int = 1,
) -> DecisionModel:
    """A DecisionModel called `default/router`."""
    metadata = {
        "name": "router",
        "namespace": "default",
        "uid": "5f0c1a52",
        "generation": generation,
        "annotations": annotations or {},
    }
    model = DecisionModel.model_validate({"metadata": metadata, "spec": {"model": "laya:en", **(spec or {})}})
    return model.model_copy(update={"status": status or DecisionModelStatus()})


def revision(model: str = "laya:en", digest: str = "") -> RevisionStatus:
    """A revision whose hash follows from model and digest."""
    digest = digest or hashlib.sha256(model.encode()).hexdigest()
    return RevisionStatus(
        hash=hashlib.sha256(f"{model}@{digest}".encode()).hexdigest()[:16],
        engine="ollaya",
        model=model,
        digest=digest,
        device="cpu",
        image="ghcr.io/ollaya-dev/ollaya:0.12.0",
        runtime_version="0.12.0",
        placement="none",
    )


def condition(decision: Decision, type_: ConditionType) -> Condition:
    """The condition of a type, which must be there."""
    found = find_condition(decision.status.conditions, type_)
    assert found is not None, f"no condition {type_} in {[each.type for each in decision.status.conditions]}"
    return found


def told(decision: Decision) -> list[str]:
    """The reasons of the decision's Events."""
    return [str(event.reason) for event in decision.events]


def stopped(decision: Decision) -> set[str]:
    """The planned revisions that are to have no Pods."""
    assert decision.stack is not None
    return {plan.revision.hash for plan in decision.stack.revisions if plan.stopped}


def selected(decision: Decision) -> str | None:
    """What the Service should select after the decision."""
    assert decision.stack is not None
    return decision.stack.selected


def planned(decision: Decision) -> dict[str, bool]:
    """The planned revisions and whether each serves."""
    assert decision.stack is not None
    return {plan.revision.hash: plan.serve for plan in decision.stack.revisions}


def _without_jobs(facts: RevisionFacts, discarded: tuple[str, ...]) -> RevisionFacts:
    return replace(facts, prefetch=PrefetchFacts()) if facts.prefetch.uid in discarded else facts


@dataclass
class World:
    """A DecisionModel and a cluster that does what decisions ask for, one step at a time."""

    spec: dict[str, Any] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    status: DecisionModelStatus = field(default_factory=DecisionModelStatus)
    now: datetime = START
    revisions: dict[str, RevisionFacts] = field(default_factory=dict)
    service: str | None = None
    resolution: Resolution = None
    said: list[str] = field(default_factory=list)
    jobs: int = 0
    """How many Jobs were created."""
    started_on: dict[str, tuple[StoreState, PrefetchFacts]] = field(default_factory=dict)
    """The store and the Job of each revision when its Deployment was last created."""
    generation: int = 1
    more: dict[str, Any] = field(default_factory=dict)
    """Further fields of the facts."""

    def facts(self) -> Facts:
        """What a pass would know now."""
        return Facts(
            now=self.now,
            model=decision_model(self.spec, self.status, self.annotations, self.generation),
            resolution=self.resolution,
            revisions=dict(self.revisions),
            service_selects=self.service,
            **self.more,
        )

    def wants(self, model: str) -> RevisionStatus:
        """Edit the spec to `model`, which resolves at once; return its revision."""
        wanted = revision(model)
        self.spec = {**self.spec, "model": model}
        self.generation += 1
        self.resolution = Resolved(revision=wanted)
        return wanted

    def reconcile(self) -> Decision:
        """Decide, persist the status and let the stack converge; Jobs and Pods do not move by themselves."""
        decision = decide(self.facts())
        self.status = decision.status
        self.said += told(decision)
        if decision.stack is not None:
            self._converge(decision)
        return decision

    def _converge(self, decision: Decision) -> None:
        assert decision.stack is not None
        plans = {plan.revision.hash: plan for plan in decision.stack.revisions}
        self.revisions = {
            name: _without_jobs(facts, decision.discarded_jobs)
            for name, facts in self.revisions.items()
            if name in plans
        }
        for name, plan in plans.items():
            facts = self.revisions.get(name, RevisionFacts())
            prefetch, pods = facts.prefetch, facts.serving
            if facts.store is StoreState.ABSENT:
                prefetch = replace(prefetch, stale=prefetch.state is not PrefetchState.ABSENT)
            if not plan.prefetch:
                prefetch = PrefetchFacts()
            if plan.prefetch and prefetch.state is PrefetchState.ABSENT:
                self.jobs += 1
                prefetch = PrefetchFacts(state=PrefetchState.RUNNING, uid=f"job-{self.jobs}")
            if plan.serve and not pods.exists:
                self.started_on[name] = (facts.store, prefetch)
                pods = ServingFacts(exists=True)
            if plan.stopped:
                # The Pods take a while to end: see `pods_are_gone`.
                pods = replace(pods, model_ready=0)
            store = StoreState.RECOVERING if plan.recovering else StoreState.PRESENT
            if facts.store is StoreState.TERMINATING or plan.withheld:
                store = facts.store
            self.revisions[name] = RevisionFacts(store=store, prefetch=prefetch, serving=pods)
        self.service = decision.stack.selected

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    def prefetched(self, wanted: RevisionStatus, outcome: PrefetchFacts | None = None) -> None:
        """End the prefetch Job of a revision: complete, or as `outcome` says."""
        done = outcome or PrefetchFacts(state=PrefetchState.COMPLETE)
        facts = self.revisions[wanted.hash]
        self.revisions[wanted.hash] = replace(facts, prefetch=replace(done, uid=facts.prefetch.uid))

    def store_is(self, wanted: RevisionStatus, state: StoreState) -> None:
        """Let somebody delete the store of a revision: TERMINATING while Pods mount it, then ABSENT."""
        self.revisions[wanted.hash] = replace(self.revisions[wanted.hash], store=state)

    def deployment_is_lost(self, wanted: RevisionStatus) -> None:
        """Let somebody delete the Deployment of a revision."""
        self.pods(wanted, ServingFacts())

    def pods_ready(self, wanted: RevisionStatus, count: int = 1) -> None:
        """Make so many Pods of a revision model-ready."""
        self.pods(wanted, ServingFacts(exists=True, model_ready=count, pods=count))

    def pods_are_gone(self, wanted: RevisionStatus) -> None:
        """Let the last Pod of a stopped revision end."""
        self.pods(wanted, ServingFacts(exists=True))

    def pods(self, wanted: RevisionStatus, pods: ServingFacts) -> None:
        """Set what the Pods of a revision report."""
        self.revisions[wanted.hash] = replace(self.revisions[wanted.hash], serving=pods)

    def ready(self, model: str, pods: int = 1) -> RevisionStatus:
        """Take `model` to where so many of its Pods have just become model-ready; return its revision."""
        wanted = self.wants(model)
        self.reconcile()
        self.prefetched(wanted)
        self.reconcile()
        self.pods_ready(wanted, pods)
        return wanted

    def rolled_out(self, model: str) -> RevisionStatus:
        """Take `model` all the way to Ready; return its revision."""
        wanted = self.ready(model, int(self.spec.get("replicas", 1)))
        self.reconcile()
        self.reconcile()
        return wanted

    def settled(self) -> None:
        """Let the stabilization window end in good health."""
        self.passes(301)
        self.reconcile()
        self.reconcile()

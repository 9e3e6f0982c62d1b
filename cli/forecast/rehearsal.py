"""A rollout played through: the reconciler's decisions, and a cluster that does what each of them asks for. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from api.conditions import Phase
from api.decisionmodel import DecisionModel
from api.keys import PROMOTE_ANNOTATION
from api.rollout import Timeouts
from api.status import EvaluationResult, EvaluationStatus, RevisionStatus
from reconciler.rollout import (
    ClaimFacts,
    Decision,
    EvaluationFacts,
    Facts,
    PrefetchState,
    RevisionFacts,
    RevisionPlan,
    ServingFacts,
    StoreState,
    decide,
)
from reconciler.rollout.timing import PROMOTION_GRACE

_MOST_PASSES: Final = 64
"""Far more than any rollout takes: the longest known one ends after a dozen."""

_APPROVAL: Final = "rehearsed"


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: what it knew and what it decided."""

    facts: Facts
    decision: Decision

    @property
    def phase(self) -> Phase | None:
        """The phase that the pass ends in."""
        return self.decision.status.phase


def rehearse(facts: Facts, stuck_in: Phase | None = None) -> tuple[Pass, ...]:
    """Play on until nothing changes any more, the stabilization window included.

    Args:
        facts: What the first pass knows.
        stuck_in: The phase in which the candidate makes no progress until its deadline is over; elsewhere everything
            that is asked for succeeds at once, and a person approves what waits for approval.
    """
    passes: list[Pass] = []
    waited = False
    while len(passes) < _MOST_PASSES:
        current = Pass(facts, decide(facts))
        passes.append(current)
        following = _following(current, stuck_in)
        if following != facts:
            facts, waited = following, False
        elif waited:
            break
        else:
            facts, waited = replace(facts, now=facts.now + _longest_watch(facts.model)), True
    return tuple(passes)


def deadline(timeouts: Timeouts, phase: Phase) -> timedelta | None:
    """Return how long a candidate may stay in a phase; None for phases without a deadline."""
    return {
        Phase.CACHING: timeouts.caching_timeout,
        Phase.STARTING: timeouts.starting_timeout,
        Phase.EVALUATING: timeouts.evaluating_timeout,
    }.get(phase)


def _longest_watch(model: DecisionModel) -> timedelta:
    window = max(model.spec.rollout.stabilization_window, timedelta(seconds=PROMOTION_GRACE))
    return window + timedelta(seconds=1)


def _following(current: Pass, stuck_in: Phase | None) -> Facts:
    """Return what the next pass knows."""
    facts, decision = current.facts, current.decision
    stuck = stuck_in is not None and current.phase is stuck_in
    following = replace(facts, model=_persisted(facts.model, decision), evaluation=_evaluation(decision, stuck=stuck))
    if stuck and stuck_in is not None:
        passed = deadline(facts.model.spec.rollout.timeouts, stuck_in) or timedelta(0)
        following = replace(following, now=facts.now + passed + timedelta(seconds=1))
    if decision.stack is None:
        return following
    candidate = decision.status.candidate_revision
    revisions = {
        plan.revision.hash: _carried_out(plan, facts, stuck_in if stuck and _is(candidate, plan) else None)
        for plan in decision.stack.revisions
    }
    return replace(following, revisions=revisions, service_selects=decision.stack.selected)


def _is(candidate: RevisionStatus | None, plan: RevisionPlan) -> bool:
    return candidate is not None and candidate.hash == plan.revision.hash


def _persisted(model: DecisionModel, decision: Decision) -> DecisionModel:
    written = model.model_copy(update={"status": decision.status})
    candidate = decision.status.candidate_revision
    if decision.status.phase is not Phase.AWAITING_PROMOTION or candidate is None:
        return written
    approval = candidate.hash if model.spec.rollout.evaluation is None else _approval_id(decision)
    annotations = {**model.metadata.annotations, PROMOTE_ANNOTATION: approval}
    return written.model_copy(update={"metadata": model.metadata.model_copy(update={"annotations": annotations})})


def _approval_id(decision: Decision) -> str:
    evaluation = decision.status.evaluation
    return _APPROVAL if evaluation is None else evaluation.approval_id


def _evaluation(decision: Decision, *, stuck: bool) -> EvaluationFacts | None:
    candidate = decision.status.candidate_revision
    if candidate is None or not decision.evaluate or stuck:
        return None
    passed = EvaluationStatus(revision=candidate.hash, result=EvaluationResult.PASSED, approval_id=_APPROVAL)
    return EvaluationFacts().concluded(passed)


def _carried_out(plan: RevisionPlan, facts: Facts, stuck_in: Phase | None) -> RevisionFacts:
    """Return what exists for a revision once its plan was carried out, as far as it comes."""
    before = facts.of(plan.revision)
    pods = 0 if plan.stopped else facts.model.spec.replicas
    ready = 0 if stuck_in is Phase.STARTING else pods
    serving = replace(before.serving, exists=True, pods=pods, model_ready=ready)
    prefetch = before.prefetch
    if plan.prefetch and prefetch.state is not PrefetchState.FAILED:
        state = PrefetchState.RUNNING if stuck_in is Phase.CACHING else PrefetchState.COMPLETE
        prefetch = replace(prefetch, state=state, stale=False)
    return replace(
        before,
        store=_store(plan, before),
        claim=before.claim or _claim(facts.model),
        prefetch=prefetch,
        # The Pods of a Deployment that is not declared end with it.
        serving=serving if plan.serve else ServingFacts(),
    )


def _store(plan: RevisionPlan, before: RevisionFacts) -> StoreState:
    if before.store is StoreState.TERMINATING or plan.withheld:
        return before.store
    return StoreState.RECOVERING if plan.recovering else StoreState.PRESENT


def _claim(model: DecisionModel) -> ClaimFacts:
    cache = model.spec.cache
    return ClaimFacts(
        size=str(cache.size),
        access_modes=cache.effective_access_modes,
        storage_class_name=cache.storage_class_name,
    )

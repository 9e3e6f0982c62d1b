"""Rehearsals end, from whatever state they begin in, and where they end nothing is left to do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.conditions import Phase
from api.rollout import Strategy
from api.status import DecisionModelStatus, FailedRevisionStatus, PreviousRevision
from cli.forecast.rehearsal import _MOST_PASSES, rehearse
from reconciler.rollout import (
    Facts,
    PrefetchFacts,
    PrefetchState,
    Resolved,
    RevisionFacts,
    ServingFacts,
    StoreState,
    decide,
)
from tests.reconciler.rollout.worlds import START, decision_model, revision, serving

STABLE, CANDIDATE, NEW = revision("laya:en"), revision("laya:en-better"), revision("laya:en-equal")
GATE: dict[str, Any] = {"datasetRef": {"configMapRef": {"name": "golden", "key": "cases"}}, "minAccuracy": "0.8"}
ROLLOUTS: list[dict[str, Any]] = [
    {},
    {"strategy": "Recreate"},
    {"promotion": "Manual"},
    {"evaluation": GATE},
    {"evaluation": GATE, "promotion": "Manual"},
    {"evaluation": GATE, "strategy": "Recreate"},
    {"stabilization": "0s"},
]
STAGES = (Phase.CACHING, Phase.STARTING, Phase.EVALUATING)


def existing() -> st.SearchStrategy[RevisionFacts]:
    states = [each for each in PrefetchState if each is not PrefetchState.FAILED]
    return st.builds(
        RevisionFacts,
        store=st.sampled_from([StoreState.ABSENT, StoreState.PRESENT, StoreState.RECOVERING]),
        prefetch=st.builds(PrefetchFacts, state=st.sampled_from(states), stale=st.booleans()),
        serving=st.builds(ServingFacts, exists=st.booleans(), pods=st.integers(0, 2), model_ready=st.integers(0, 2)),
    )


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    """A DecisionModel anywhere on its way, whose spec asks for one of three revisions."""
    stable = draw(st.sampled_from([None, STABLE]))
    candidate = draw(st.sampled_from([None, CANDIDATE]))
    status = DecisionModelStatus(
        phase=draw(st.sampled_from([Phase.PENDING, Phase.CACHING, Phase.STARTING, Phase.READY])),
        phase_transition_time=START - timedelta(seconds=draw(st.integers(0, 500))),
        stable_revision=stable,
        candidate_revision=candidate,
    )
    return Facts(
        now=START,
        model=decision_model({"rollout": draw(st.sampled_from(ROLLOUTS)), "replicas": draw(st.integers(1, 3))}, status),
        resolution=Resolved(revision=draw(st.sampled_from([STABLE, CANDIDATE, NEW]))),
        revisions={each.hash: draw(existing()) for each in (stable, candidate) if each is not None},
        service_selects=None if stable is None else draw(st.sampled_from([None, stable.hash])),
    )


def settled(begin: Facts, stuck_in: Phase | None = None) -> DecisionModelStatus:
    """How a rehearsal ends, having shown that it does."""
    passes = rehearse(begin, stuck_in)
    assert len(passes) < _MOST_PASSES
    last = passes[-1]
    assert decide(last.facts) == last.decision
    return last.decision.status


@given(begin=facts())
def test_a_smooth_rollout_ends_with_what_is_asked_for(begin: Facts) -> None:
    assert isinstance(begin.resolution, Resolved)
    status = settled(begin)
    assert status.stable_revision is not None
    assert status.stable_revision.hash == begin.resolution.revision.hash
    assert (status.phase, status.candidate_revision, status.previous_revision) == (Phase.READY, None, None)


@given(begin=facts(), stage=st.sampled_from(STAGES))
def test_a_rollout_that_is_stuck_ends_with_what_served_or_what_is_asked_for(begin: Facts, stage: Phase) -> None:
    assert isinstance(begin.resolution, Resolved)
    status = settled(begin, stage)
    before, wanted = begin.model.status.stable_revision, begin.resolution.revision.hash
    serves = None if status.stable_revision is None else status.stable_revision.hash
    assert serves in (None if before is None else before.hash, wanted)
    assert status.candidate_revision is None


@pytest.mark.parametrize(
    ("rollout", "stage"),
    [(each, stage) for each in ROLLOUTS for stage in STAGES if stage is not Phase.EVALUATING or "evaluation" in each],
)
def test_a_stage_that_never_ends_is_rejected_at_its_deadline(rollout: dict[str, Any], stage: Phase) -> None:
    status = DecisionModelStatus(phase=Phase.READY, stable_revision=STABLE)
    begin = Facts(
        now=START,
        model=decision_model({"rollout": rollout}, status),
        resolution=Resolved(revision=NEW),
        revisions={STABLE.hash: serving(1)},
        service_selects=STABLE.hash,
    )
    ended = settled(begin, stage)
    reasons = {Phase.CACHING: "CacheTimeout", Phase.STARTING: "StartTimeout", Phase.EVALUATING: "EvaluationTimeout"}
    assert ended.failed_revision is not None
    assert (ended.phase, ended.failed_revision.reason) == (Phase.ROLLED_BACK, reasons[stage])
    assert ended.stable_revision == STABLE


def test_a_revision_in_its_window_is_watched_to_the_end() -> None:
    previous = PreviousRevision(hash=STABLE.hash, promoted_at=START, revision=STABLE, strategy=Strategy.BLUE_GREEN)
    status = DecisionModelStatus(phase=Phase.READY, stable_revision=NEW, previous_revision=previous)
    begin = Facts(
        now=START,
        model=decision_model({}, status),
        resolution=Resolved(revision=NEW),
        revisions={STABLE.hash: serving(1), NEW.hash: serving(1)},
        service_selects=NEW.hash,
    )
    assert settled(begin).previous_revision is None


def test_a_rejected_revision_stays_rejected() -> None:
    failed = FailedRevisionStatus(**dict(NEW), reason="StartTimeout", message="too slow")
    status = DecisionModelStatus(phase=Phase.ROLLED_BACK, stable_revision=STABLE, failed_revision=failed)
    begin = Facts(
        now=START,
        model=decision_model({}, status),
        resolution=Resolved(revision=NEW),
        revisions={STABLE.hash: serving(1)},
        service_selects=STABLE.hash,
    )
    assert settled(begin).failed_revision == failed

"""A candidate's manifest ConfigMap that somebody broke or deleted while the Job still needs it (spec section 4.2)."""

from __future__ import annotations

import pytest

from api.conditions import Phase, Reason
from reconciler.rollout import ManifestState, PrefetchFacts, PrefetchState
from tests.reconciler.rollout.worlds import World, told

BROKEN_SEED = PrefetchFacts(state=PrefetchState.FAILED, failure="DigestMismatch", permanent=True)


@pytest.mark.parametrize(
    ("manifest", "event"), [(ManifestState.REPAIRABLE, "ManifestRepaired"), (ManifestState.LOST, "ManifestInvalid")]
)
@pytest.mark.parametrize("failed", [False, True])
def test_the_job_runs_again_instead_of_condemning_the_candidate(
    manifest: ManifestState, event: str, *, failed: bool
) -> None:
    world = World()
    wanted = world.wants("laya:en")
    world.reconcile()
    if failed:
        world.prefetched(wanted, BROKEN_SEED)
    world.more = {"manifest": manifest}
    decision = world.reconcile()
    assert decision.repair_manifest
    assert decision.discarded_jobs == ("job-1",)
    assert told(decision) == [event]
    assert decision.status.phase is Phase.CACHING
    world.more = {}
    world.reconcile()
    world.prefetched(wanted)
    assert world.reconcile().status.phase is Phase.STARTING


def test_a_manifest_that_nobody_needs_any_more_is_left_alone() -> None:
    world = World()
    wanted = world.wants("laya:en")
    world.reconcile()
    world.prefetched(wanted)
    world.more = {"manifest": ManifestState.LOST}
    decision = world.reconcile()
    assert not decision.repair_manifest
    assert decision.status.phase is Phase.STARTING


def test_one_that_is_broken_again_and_again_ends_at_the_caching_deadline() -> None:
    world = World()
    world.wants("laya:en")
    world.reconcile()
    world.more = {"manifest": ManifestState.REPAIRABLE}
    passes = 0
    while world.status.phase is Phase.CACHING:
        world.reconcile()
        world.passes(60)
        passes += 1
    assert passes < 40
    assert world.status.failed_revision is not None
    assert world.status.failed_revision.reason == Reason.CACHE_TIMEOUT

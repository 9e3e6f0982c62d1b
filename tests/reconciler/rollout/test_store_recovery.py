"""A serving revision whose store is lost: refilled under a mark, with bounded attempts, and never in traffic's way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.conditions import ConditionType, Phase, Reason
from api.keys import RETRY_ANNOTATION
from api.status import RevisionStatus
from reconciler.rollout import Decision, PrefetchFacts, PrefetchState, RevisionPlan, ServingFacts, StoreState
from tests.reconciler.rollout.worlds import World, condition, told

TRANSIENT = PrefetchFacts(state=PrefetchState.FAILED, failure="Transient")
PERMANENT = PrefetchFacts(state=PrefetchState.FAILED, failure="UpstreamTagMoved", permanent=True)
EXPIRED = PrefetchFacts(state=PrefetchState.RUNNING, expired=True)


def world_without_store() -> tuple[World, RevisionStatus]:
    world = World()
    stable = world.rolled_out("laya:en")
    world.store_is(stable, StoreState.ABSENT)
    return world, stable


def plan_of(decision: Decision, revision: RevisionStatus) -> RevisionPlan:
    assert decision.stack is not None
    (plan,) = [plan for plan in decision.stack.revisions if plan.revision.hash == revision.hash]
    return plan


def refilling(world: World) -> Decision:
    """Go on until the Job that refills the store runs."""
    return [world.reconcile() for _ in range(3)][-1]


def test_a_lost_store_is_created_again_under_the_mark() -> None:
    world, stable = world_without_store()
    decision = world.reconcile()
    plan = plan_of(decision, stable)
    assert (plan.recovering, plan.serve) == (True, True)
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.STORE_LOST
    assert condition(decision, ConditionType.READY).status == "True"
    assert decision.status.phase is Phase.READY
    assert told(decision) == ["StoreLost"]
    assert decision.requeue_after == 5.0
    assert decision.discarded_jobs == ()


def test_the_old_job_is_discarded_only_once_the_mark_is_on_the_store() -> None:
    world, stable = world_without_store()
    old = world.revisions[stable.hash].prefetch.uid
    world.reconcile()
    decision = world.reconcile()
    assert decision.discarded_jobs == (old,)
    assert told(decision) == []
    assert plan_of(world.reconcile(), stable).prefetch
    assert world.revisions[stable.hash].prefetch.uid != old


def test_a_store_created_again_without_the_mark_is_recognised_by_its_older_job() -> None:
    world, stable = world_without_store()
    facts = world.revisions[stable.hash]
    world.revisions[stable.hash] = replace(
        facts, store=StoreState.PRESENT, prefetch=replace(facts.prefetch, stale=True)
    )
    decision = world.reconcile()
    assert plan_of(decision, stable).recovering
    assert decision.discarded_jobs == ()


@pytest.mark.parametrize("outcome", [PrefetchFacts(state=PrefetchState.RUNNING), TRANSIENT, EXPIRED])
def test_a_store_created_again_without_the_mark_is_not_filled_before_its_job_says_so(outcome: PrefetchFacts) -> None:
    """An operation that was planned while the store was still there has created it, and the Job, once more."""
    world, stable = world_without_store()
    facts = world.revisions[stable.hash]
    lost = replace(facts, store=StoreState.PRESENT, prefetch=outcome, serving=ServingFacts())
    world.revisions[stable.hash] = lost
    plan = plan_of(world.reconcile(), stable)
    assert (plan.recovering, plan.serve) == (True, False)
    world.revisions[stable.hash] = replace(lost, prefetch=PrefetchFacts(state=PrefetchState.COMPLETE, uid="new"))
    plan = plan_of(world.reconcile(), stable)
    assert (plan.recovering, plan.serve) == (False, True)


def test_a_filled_store_loses_the_mark_and_the_condition() -> None:
    world, stable = world_without_store()
    refilling(world)
    world.prefetched(stable)
    decision = world.reconcile()
    assert not plan_of(decision, stable).recovering
    assert ConditionType.DEGRADED not in {each.type for each in decision.status.conditions}
    assert decision.status.store_recovery is None
    assert decision.status.stable_revision == stable


def test_the_time_of_the_loss_is_kept_and_nothing_is_written_anew() -> None:
    world, _ = world_without_store()
    lost = condition(world.reconcile(), ConditionType.DEGRADED).last_transition_time
    refilling(world)
    world.passes(30)
    before = world.status
    decision = world.reconcile()
    assert condition(decision, ConditionType.DEGRADED).last_transition_time == lost
    assert decision.status == before


@pytest.mark.parametrize(("outcome", "attempts"), [(TRANSIENT, 3), (EXPIRED, 3), (PERMANENT, 1)])
def test_recovery_gives_up_after_its_attempts(outcome: PrefetchFacts, attempts: int) -> None:
    world, stable = world_without_store()
    for attempt in range(1, attempts + 1):
        refilling(world)
        world.prefetched(stable, outcome)
        decision = world.reconcile()
        assert decision.status.store_recovery is not None
        assert decision.status.store_recovery.attempts == attempt
        assert decision.status.store_recovery.exhausted == (attempt == attempts)
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.STORE_PREFETCH_FAILED
    assert told(decision) == ["StorePrefetchFailed"]
    jobs = world.jobs
    idle = [world.reconcile() for _ in range(3)][-1]
    assert (world.jobs, idle.requeue_after, told(idle), idle.discarded_jobs) == (jobs, 60.0, [], ())
    assert not plan_of(idle, stable).prefetch


def test_a_failed_job_is_counted_once_although_its_deletion_is_lost() -> None:
    world, stable = world_without_store()
    refilling(world)
    world.prefetched(stable, TRANSIENT)
    failed = world.revisions[stable.hash]
    world.reconcile()
    world.revisions[stable.hash] = failed
    decision = world.reconcile()
    assert decision.status.store_recovery is not None
    assert decision.status.store_recovery.attempts == 1
    assert decision.discarded_jobs == (failed.prefetch.uid,)


def test_a_new_retry_token_starts_an_exhausted_recovery_again() -> None:
    world, stable = world_without_store()
    refilling(world)
    world.prefetched(stable, PERMANENT)
    world.reconcile()
    world.annotations[RETRY_ANNOTATION] = "again"
    decision = refilling(world)
    assert "RetryNoop" not in world.said
    assert decision.status.store_recovery is None
    assert world.revisions[stable.hash].prefetch.state is PrefetchState.RUNNING


def test_a_store_on_its_way_out_keeps_its_pods_and_is_reported_once() -> None:
    world = World()
    stable = world.rolled_out("laya:en")
    world.store_is(stable, StoreState.TERMINATING)
    decision = world.reconcile()
    assert plan_of(decision, stable).serve
    assert plan_of(decision, stable).recovering, "it may be gone before the operation gets there"
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.STORE_TERMINATING
    assert decision.discarded_jobs, "the Pod of a Job that has ended would hold the claim for ever"
    assert condition(decision, ConditionType.READY).status == "True"
    assert told(decision) == ["StoreTerminating"]
    assert told(world.reconcile()) == []


@pytest.mark.parametrize("state", [StoreState.ABSENT, StoreState.TERMINATING])
def test_a_lost_deployment_waits_for_the_store(state: StoreState) -> None:
    world, stable = world_without_store()
    world.store_is(stable, state)
    world.deployment_is_lost(stable)
    assert not plan_of(world.reconcile(), stable).serve
    world.store_is(stable, StoreState.ABSENT)
    assert not plan_of(refilling(world), stable).serve
    world.prefetched(stable)
    world.reconcile()
    assert plan_of(world.reconcile(), stable).serve


def test_nothing_is_refilled_beside_a_candidate() -> None:
    world, stable = world_without_store()
    wanted = world.wants("laya:multilingual")
    decisions = [world.reconcile() for _ in range(4)]
    assert not any(decision.discarded_jobs for decision in decisions)
    assert plan_of(decisions[-1], stable).recovering
    world.prefetched(wanted, TRANSIENT)
    decision = [world.reconcile() for _ in range(4)][-1]
    assert decision.status.phase is Phase.ROLLED_BACK
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.STORE_LOST
    world.prefetched(stable)
    decision = [world.reconcile() for _ in range(2)][-1]
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.PREFETCH_FAILED


def test_a_new_stable_starts_with_a_clean_count() -> None:
    world, stable = world_without_store()
    refilling(world)
    world.prefetched(stable, TRANSIENT)
    world.reconcile()
    assert world.rolled_out("laya:multilingual") == world.status.stable_revision
    assert world.status.store_recovery is None


def world_that_does_not_answer(pods: int) -> tuple[World, RevisionStatus]:
    """A lost store, and Pods of which none answers any more."""
    world, stable = world_without_store()
    world.pods(stable, ServingFacts(exists=True, pods=pods))
    return world, stable


def test_pods_that_do_not_answer_stop_before_the_store_is_created_again() -> None:
    """They could mount the empty claim, on another node or as the only ones, and keep the Job away from it."""
    world, stable = world_that_does_not_answer(pods=1)
    decision = world.reconcile()
    plan = plan_of(decision, stable)
    assert (plan.serve, plan.stopped, plan.withheld, plan.prefetch) == (True, True, True, False)
    assert "once its Pods have stopped" in condition(decision, ConditionType.DEGRADED).message

    world.pods_are_gone(stable)
    plan = plan_of(world.reconcile(), stable)
    assert (plan.serve, plan.stopped, plan.withheld, plan.recovering) == (True, True, False, True)
    plan = plan_of(refilling(world), stable)
    assert (plan.stopped, plan.prefetch) == (True, True)

    world.prefetched(stable)
    plan = plan_of(world.reconcile(), stable)
    assert (plan.serve, plan.stopped, plan.recovering) == (True, False, False)


def test_a_store_that_is_there_already_gets_its_job_only_when_no_pod_can_mount_it_before() -> None:
    world, stable = world_that_does_not_answer(pods=1)
    lost = world.revisions[stable.hash]
    world.revisions[stable.hash] = replace(lost, store=StoreState.RECOVERING, prefetch=PrefetchFacts())
    plan = plan_of(world.reconcile(), stable)
    assert (plan.stopped, plan.withheld, plan.prefetch) == (True, False, False)
    world.pods_are_gone(stable)
    assert plan_of(world.reconcile(), stable).prefetch


def test_pods_that_answer_go_on_although_the_store_is_lost() -> None:
    world, stable = world_without_store()
    world.pods_ready(stable)
    plan = plan_of(world.reconcile(), stable)
    assert (plan.serve, plan.stopped, plan.withheld) == (True, False, False)

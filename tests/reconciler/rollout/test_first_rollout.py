"""From nothing to Ready: phases, conditions, Events and plans of a first rollout (spec sections 5.4 to 5.6)."""

from __future__ import annotations

import hashlib

import pytest

from api.conditions import ConditionType, Phase, Reason
from reconciler.rollout import PrefetchFacts, PrefetchState, Refusal, ResolutionFailed, StackPlan, TagMissing
from reconciler.rollout.promotion import recent_promotion
from tests.reconciler.rollout.worlds import World, condition, planned, selected, told


def test_the_first_pass_asks_the_registry_and_touches_nothing() -> None:
    world = World()
    decision = world.reconcile()
    assert decision.resolve
    assert decision.stack is None
    assert decision.status.phase is Phase.PENDING
    assert decision.status.endpoint == "http://router.default.svc:11435/v1/systemone"
    assert condition(decision, ConditionType.READY).status == "False"


def test_a_resolved_tag_starts_the_prefetch_and_nothing_else() -> None:
    world = World()
    wanted = world.wants("laya:en")
    decision = world.reconcile()
    assert decision.status.phase is Phase.CACHING
    assert decision.status.candidate_revision == wanted
    assert planned(decision) == {wanted.hash: False}
    assert selected(decision) is None
    assert told(decision) == ["Resolved", "PrefetchStarted"]
    assert condition(decision, ConditionType.RESOLVED).status == "True"
    assert condition(decision, ConditionType.CACHED).reason == Reason.CACHING


def test_a_filled_store_starts_the_pods_but_no_traffic() -> None:
    world = World()
    wanted = world.wants("laya:en")
    world.reconcile()
    world.prefetched(wanted)
    decision = world.reconcile()
    assert decision.status.phase is Phase.STARTING
    assert planned(decision) == {wanted.hash: True}
    assert selected(decision) is None
    assert wanted.hash in decision.probe
    assert told(decision) == ["Cached", "RevisionStarting"]


def test_promotion_waits_for_every_replica() -> None:
    world = World(spec={"replicas": 2})
    wanted = world.ready("laya:en", 1)
    assert world.reconcile().status.stable_revision is None
    world.pods_ready(wanted, 2)
    decision = world.reconcile()
    assert decision.status.stable_revision == wanted
    assert selected(decision) == wanted.hash


def test_promotion_is_told_once_and_ends_ready() -> None:
    world = World()
    wanted = world.rolled_out("laya:en")
    for _ in range(5):
        world.reconcile()
    assert world.said.count("Promoted") == 1
    assert world.status.phase is Phase.READY
    assert world.status.candidate_revision is None
    assert world.status.stable_revision == wanted
    assert world.status.previous_revision is None
    assert world.service == wanted.hash


def test_an_unchanged_ready_model_decides_the_same_status() -> None:
    world = World()
    world.rolled_out("laya:en")
    before = world.status
    world.passes(60)
    decision = world.reconcile()
    assert decision.status == before
    assert not decision.events
    assert not decision.resolve
    assert decision.requeue_after == 60


@pytest.mark.parametrize(
    ("failure", "detail", "permanent", "message"),
    [
        ("ModelNotFound", "", True, "prefetch failed: ModelNotFound (permanent)"),
        (
            "DigestMismatch",
            "recorded a, seed b",
            True,
            "prefetch failed: DigestMismatch (recorded a, seed b) (permanent)",
        ),
        ("Transient", "", False, "prefetch failed: Transient"),
    ],
)
def test_a_failed_prefetch_without_a_stable_ends_failed(
    failure: str, detail: str, permanent: bool, message: str
) -> None:
    world = World()
    wanted = world.wants("laya:en")
    world.reconcile()
    world.prefetched(
        wanted, PrefetchFacts(state=PrefetchState.FAILED, failure=failure, detail=detail, permanent=permanent)
    )
    decision = world.reconcile()
    assert decision.status.phase is Phase.FAILED
    assert decision.status.failed_revision is not None
    assert decision.status.failed_revision.hash == wanted.hash
    assert decision.status.failed_revision.message == message
    assert condition(decision, ConditionType.READY).reason == Reason.PREFETCH_FAILED
    assert planned(decision) == {}
    assert told(decision) == ["Failed"]


def test_a_failed_revision_is_not_tried_again_by_itself() -> None:
    world = World()
    wanted = world.wants("laya:en")
    world.reconcile()
    world.prefetched(wanted, PrefetchFacts(state=PrefetchState.FAILED, failure="ModelNotFound", permanent=True))
    world.reconcile()
    for _ in range(3):
        decision = world.reconcile()
        assert planned(decision) == {}
        assert not decision.events
        assert decision.status.phase is Phase.FAILED


def test_a_retry_token_starts_exactly_one_new_attempt() -> None:
    world = World()
    wanted = world.wants("laya:en")
    world.reconcile()
    world.prefetched(wanted, PrefetchFacts(state=PrefetchState.FAILED, failure="Transient"))
    world.reconcile()
    world.annotations = {"decisionmodel.io/retry": "1"}
    assert world.reconcile().status.candidate_revision == wanted
    world.prefetched(wanted, PrefetchFacts(state=PrefetchState.FAILED, failure="Transient"))
    world.reconcile()
    assert world.reconcile().status.phase is Phase.FAILED
    assert world.status.last_retry_token == "1"


LONG = "again, " * 40_000


@pytest.mark.parametrize(
    ("recorded", "times"), [("", 1), (LONG, 0)], ids=["new", "recorded whole by an earlier version"]
)
def test_a_long_retry_token_is_recorded_by_its_digest(recorded: str, times: int) -> None:
    world = World(annotations={"decisionmodel.io/retry": LONG})
    world.status = world.status.model_copy(update={"last_retry_token": recorded})
    world.wants("laya:en")
    world.reconcile()
    world.reconcile()
    assert world.said.count("RetryNoop") == times
    digest = f"sha256:{hashlib.sha256(LONG.encode()).hexdigest()}"
    assert world.status.last_retry_token == (recorded or digest)


def test_a_retry_with_nothing_to_retry_says_so_once() -> None:
    world = World(annotations={"decisionmodel.io/retry": "1"})
    world.wants("laya:en")
    world.reconcile()
    world.reconcile()
    assert world.said.count("RetryNoop") == 1


def test_a_missing_tag_is_failed_and_asked_for_again() -> None:
    world = World(resolution=TagMissing(message="no laya:en in ollaya.dev"))
    decision = world.reconcile()
    assert decision.status.phase is Phase.FAILED
    assert decision.resolve
    assert condition(decision, ConditionType.RESOLVED).reason == Reason.MODEL_NOT_FOUND
    assert condition(decision, ConditionType.READY).reason == Reason.MODEL_NOT_FOUND


def test_an_unreachable_registry_stays_resolving() -> None:
    world = World()
    world.reconcile()
    world.resolution = ResolutionFailed(message="connection refused")
    decision = world.reconcile()
    assert decision.status.phase is Phase.RESOLVING
    assert decision.resolve
    assert condition(decision, ConditionType.RESOLVED).reason == Reason.RESOLVE_FAILED


@pytest.mark.parametrize(
    "reason", [Reason.INVALID_MODEL_NAME, Reason.REGISTRY_NOT_ALLOWED, Reason.IMAGE_OVERRIDE_NOT_ALLOWED]
)
def test_a_security_refusal_is_final_and_asks_no_registry(reason: Reason) -> None:
    world = World(more={"preflight": Refusal(reason=reason, message="not allowed")})
    decision = world.reconcile()
    assert decision.status.phase is Phase.FAILED
    assert condition(decision, ConditionType.READY).reason == reason
    assert not decision.resolve
    assert decision.stack == StackPlan(), "what an abandoned candidate had goes, and nothing comes"
    assert decision.requeue_after is None


@pytest.mark.parametrize(
    "reason",
    [
        Reason.RUNTIME_VERSION_UNSUPPORTED,
        Reason.INVALID_RUNTIME_VERSION,
        Reason.UNPINNED_RUNTIME_IMAGE,
        Reason.API_KEY_INVALID,
        Reason.SECRET_NOT_ALLOWED,
        Reason.DOWNLOAD_TOKEN_INVALID,
    ],
)
def test_a_configuration_problem_is_degraded_until_mended(reason: Reason) -> None:
    world = World(more={"refusals": (Refusal(reason=reason, message="mend it"),)})
    world.wants("laya:en")
    decision = world.reconcile()
    assert decision.status.phase is Phase.DEGRADED
    assert condition(decision, ConditionType.READY).reason == reason
    assert planned(decision) == {}
    assert decision.requeue_after == 60
    world.more = {}
    assert world.reconcile().status.phase is Phase.CACHING


def test_a_foreign_object_blocks_without_a_single_change() -> None:
    world = World(more={"conflict": "Service default/router is not controlled by this DecisionModel"})
    world.wants("laya:en")
    decision = world.reconcile()
    assert decision.stack is None
    assert condition(decision, ConditionType.READY).reason == Reason.RESOURCE_CONFLICT
    assert condition(decision, ConditionType.DEGRADED).status == "True"
    assert told(decision) == ["ResourceConflict"]
    assert told(world.reconcile()) == []
    world.more = {}
    assert world.reconcile().status.phase is Phase.CACHING


def test_caching_that_takes_too_long_is_rejected() -> None:
    world = World(spec={"rollout": {"timeouts": {"caching": "1m"}}})
    world.wants("laya:en")
    world.reconcile()
    world.passes(60)
    assert world.reconcile().status.phase is Phase.CACHING
    world.passes(1)
    decision = world.reconcile()
    assert decision.status.phase is Phase.FAILED
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.CACHE_TIMEOUT


def test_starting_that_takes_too_long_is_rejected() -> None:
    world = World(spec={"rollout": {"timeouts": {"starting": "1m"}}})
    wanted = world.wants("laya:en")
    world.reconcile()
    world.passes(3000)
    world.prefetched(wanted)
    # The deadline counts from the phase, not from the rollout.
    world.status = world.status.model_copy(update={"phase_transition_time": world.now})
    world.reconcile()
    world.passes(61)
    decision = world.reconcile()
    assert decision.status.phase is Phase.FAILED
    assert condition(decision, ConditionType.DEGRADED).reason == Reason.START_TIMEOUT


def test_a_promoted_model_is_ready_only_once_clients_can_reach_it() -> None:
    world = World()
    world.ready("laya:en")
    promoted = world.reconcile()
    assert "Promoted" in told(promoted)
    assert promoted.status.phase is Phase.STARTING
    assert condition(promoted, ConditionType.READY).status == "False"
    reached = world.reconcile()
    assert reached.status.phase is Phase.READY
    assert condition(reached, ConditionType.READY).status == "True"


@pytest.mark.parametrize(("age", "told_again"), [(0, True), (600, True), (601, False)])
def test_a_starting_process_tells_a_recent_promotion_again_as_the_same_event(age: int, told_again: bool) -> None:
    world = World()
    world.ready("laya:en")
    (first,) = (event for event in world.reconcile().events if event.reason == "Promoted")
    world.passes(age)
    assert recent_promotion(world.status, world.now) == (first if told_again else None)

"""Rollouts through the whole reconciler: what users see, what the cluster holds, and in which order it came there."""

from __future__ import annotations

import base64

import pytest

from reconciler.controller.observation import uid_of
from reconciler.controller.watched import CONFIG_MAPS, DEPLOYMENTS, JOBS
from reconciler.driver import OperationKind
from tests.fakes.apiserver import Request
from tests.reconciler.controller.bed import Bed
from tests.reconciler.controller.kubelet import Failed

pytestmark = pytest.mark.anyio

SHARED = {"accessModes": ["ReadWriteMany"]}


async def test_the_first_rollout_ends_ready_and_is_told_step_by_step(bed: Bed) -> None:
    revision = await bed.rolled_out()

    assert bed.selected == revision
    assert bed.children == [
        ("Deployment", f"router-{revision}"),
        ("Job", f"router-pf-{revision}"),
        ("PersistentVolumeClaim", f"router-store-{revision}"),
        ("Service", "router"),
    ]
    assert bed.events == ["Resolved", "PrefetchStarted", "Cached", "RevisionStarting", "Promoted"]
    assert bed.condition("Ready")[:2] == ("True", "Ready")
    assert bed.status.stable_revision is not None
    assert bed.status.stable_revision.digest == bed.registry.digest("laya:en")
    assert bed.status.stable_revision.precision == "F32"
    assert bed.gate() == ("True", "ModelReady")


async def test_a_new_model_takes_over_beside_the_old_one(bed: Bed) -> None:
    old = await bed.rolled_out()
    new = await bed.rolled_out(model="laya:en-better")

    assert new != old
    assert bed.selected == new
    assert {name for kind, name in bed.children if kind == "Deployment"} == {f"router-{old}", f"router-{new}"}
    assert bed.events.count("Promoted") == 2

    await bed.advance(301)
    await bed.advance(11)

    assert [name for kind, name in bed.children if kind == "Deployment"] == [f"router-{new}"]
    assert "Stabilized" in bed.events
    assert [obj["metadata"]["name"] for obj in bed.objects(CONFIG_MAPS)] == [f"router-manifest-{new}"]


async def test_a_failed_prefetch_is_rejected_while_the_old_revision_serves(bed: Bed) -> None:
    old = await bed.rolled_out()
    before = bed.children
    bed.kubelet.prefetch = lambda name: None if old in name else Failed()
    bed.declare(model="laya:en-better")
    await bed.settle()

    assert bed.status.phase == "RolledBack"
    assert bed.selected == old
    assert bed.condition("Ready")[:2] == ("True", "CandidateRejected")
    status, reason, message = bed.condition("Degraded")
    assert (status, reason) == ("True", "PrefetchFailed")
    assert message == "prefetch failed: DigestMismatch (the store holds other bytes) (permanent)"
    assert bed.children == before, "nothing of the rejected revision stays"
    assert bed.events.count("RolledBack") == 1

    bed.declare()
    await bed.settle()
    assert bed.status.phase == "Ready"
    assert bed.status.failed_revision is None


async def test_a_deleted_model_takes_its_stack_and_its_series_along(bed: Bed) -> None:
    await bed.rolled_out()
    assert bed.sample("decisionmodel_phase", phase="Ready") == 1.0
    (stack,) = bed.driver.states

    bed.delete()
    await bed.settle()

    assert bed.children == []
    assert bed.driver.states == {}
    assert (bed.driver.performed[-1].kind, bed.driver.performed[-1].stack) == (OperationKind.REMOVE, stack)
    series = [sample for family in bed.parts.registry.collect() for sample in family.samples]
    assert not [sample for sample in series if sample.labels.get("name") == "router"]


async def test_a_model_made_anew_under_the_same_name_is_another_one(bed: Bed) -> None:
    await bed.rolled_out()
    (first,) = bed.driver.states
    bed.delete()
    bed.declare()
    await bed.settle()

    (second,) = bed.driver.states
    assert second != first
    assert bed.status.phase == "Ready"
    assert bed.events.count("Promoted") == 2


async def test_stacks_of_models_deleted_while_nobody_watched_are_swept(bed: Bed) -> None:
    await bed.rolled_out()
    await bed.kill()
    bed.delete()
    bed.start()
    await bed.settle()
    assert bed.driver.states == {}


async def test_the_sweep_spares_the_stacks_of_models_that_exist(bed: Bed) -> None:
    await bed.rolled_out()
    (stack,) = bed.driver.states
    await bed.restart()
    assert list(bed.driver.states) == [stack]
    assert bed.driver.performed == []


async def test_the_status_is_written_before_the_stack_follows(bed: Bed) -> None:
    await bed.rolled_out()
    await bed.rolled_out(model="laya:en-better")
    await bed.advance(301)
    await bed.advance(11)

    assert len(bed.driver.performed) >= 6
    for performed in bed.driver.performed:
        assert performed.desired is not None
        assert performed.model is not None
        status = performed.model["status"]
        known = [status.get("stableRevision"), status.get("candidateRevision"), status.get("previousRevision")]
        hashes = {revision["hash"] for revision in known if revision}
        assert {revision.hash for revision in performed.desired.revisions} <= hashes
        stable = status.get("stableRevision", {}).get("hash")
        assert performed.desired.selected == stable, "the Service never selects what the status does not know"


async def test_the_manifest_is_kept_before_its_digest_is_recorded(bed: Bed) -> None:
    await bed.rolled_out()

    writes = [request for request in bed.server.writes if "/events" not in request.path]
    kept = next(number for number, each in enumerate(writes) if each.path.endswith("/configmaps"))
    recorded = next(number for number, each in enumerate(writes) if "candidateRevision" in str(each.body))
    assert kept < recorded
    (config_map,) = bed.objects(CONFIG_MAPS)
    assert base64.b64decode(config_map["binaryData"]["manifest"]) == bed.registry.manifest("laya:en")


async def test_a_ready_model_costs_no_write_and_no_operation(bed: Bed) -> None:
    await bed.rolled_out()
    await bed.advance(61)
    writes, operations = len(bed.server.writes), len(bed.driver.performed)
    inspections = len(bed.runtime.calls)

    for _ in range(5):
        assert 54 <= await bed.next_pass() <= 60

    assert len(bed.server.writes) == writes
    assert len(bed.driver.performed) == operations
    assert bed.runtime.calls[inspections:] == ["/api/ps"] * 5, "each pass inspects the Pod"


async def test_a_restart_of_the_reconciler_changes_nothing(bed: Bed) -> None:
    await bed.rolled_out()
    writes, told = len(bed.server.writes), bed.events
    await bed.restart()
    await bed.advance(61)

    # A successor cannot know whether the promotion was told: it tells again, and the server has the Event already.
    assert [request.path.rpartition("/")[2] for request in bed.server.writes[writes:]] == ["events"]
    assert bed.events == told
    assert bed.driver.performed == []


async def test_somebody_elses_change_first_makes_nothing_known_and_is_tried_again(bed: Bed) -> None:
    bed.kubelet.prefetch = lambda _: False
    bed.declare()
    await bed.settle()
    told = bed.events
    operations = len(bed.driver.performed)

    def is_status_write(request: Request) -> bool:
        return request.path.endswith("/status") and "decisionmodels" in request.path

    bed.server.fail(409, times=1, matches=is_status_write)
    bed.kubelet.prefetch = lambda _: None
    await bed.settle()
    assert bed.events == told, "what did not happen is not told"
    assert len(bed.driver.performed) == operations
    assert bed.status.phase == "Caching"

    await bed.advance(1.01)
    assert bed.status.phase == "Ready"
    assert bed.events == ["Resolved", "PrefetchStarted", "Cached", "RevisionStarting", "Promoted"]


async def test_a_status_write_carries_the_version_it_was_decided_on(bed: Bed) -> None:
    await bed.rolled_out()
    assert bed.status_writes
    assert all(request.body["metadata"]["resourceVersion"] for request in bed.status_writes)


async def test_a_superseded_candidate_is_abandoned(bed: Bed) -> None:
    stable = await bed.rolled_out()
    bed.kubelet.prefetch = lambda name: None if stable in name else False
    bed.declare(model="laya:en-better")
    await bed.settle()
    assert bed.status.candidate_revision is not None
    abandoned = bed.status.candidate_revision.hash

    bed.declare(model="laya:multilingual")
    await bed.settle()

    assert "CandidateSuperseded" in bed.events
    assert not [name for _, name in bed.children if abandoned in name]
    assert bed.condition("Ready")[0] == "True"


async def test_a_candidate_waits_for_approval_where_promotion_is_manual(bed: Bed) -> None:
    old = await bed.rolled_out(rollout={"promotion": "Manual"})
    bed.declare(model="laya:en-better", rollout={"promotion": "Manual"})
    await bed.settle()
    assert bed.status.phase == "AwaitingPromotion"
    assert bed.selected == old
    assert bed.status.candidate_revision is not None
    candidate = bed.status.candidate_revision.hash

    bed.declare(
        model="laya:en-better", rollout={"promotion": "Manual"}, annotations={"decisionmodel.io/promote": candidate}
    )
    await bed.settle()
    assert bed.selected == candidate
    assert bed.events.count("Promoted") == 2


async def test_more_replicas_are_scaled_in_place_and_get_a_disruption_budget(bed: Bed) -> None:
    revision = await bed.rolled_out(cache=SHARED)
    await bed.rolled_out(cache=SHARED, replicas=3)

    assert bed.get(DEPLOYMENTS, f"router-{revision}")["spec"]["replicas"] == 3
    assert ("PodDisruptionBudget", f"router-{revision}") in bed.children
    assert bed.status.replicas is not None
    assert (bed.status.replicas.desired, bed.status.replicas.model_ready) == (3, 3)
    assert bed.sample("decisionmodel_model_ready_replicas") == 3.0


async def test_an_object_the_declared_api_does_not_admit_is_left_alone_and_told(bed: Bed) -> None:
    bed.declare(replicas="many")
    await bed.settle()

    assert bed.driver.performed == []
    holds, reason, message = bed.condition("Ready")
    assert (holds, reason) == ("False", "ObjectInvalid")
    assert "does not fit the declared API: spec.replicas: " in message
    assert bed.events == ["ObjectInvalid"]
    assert bed.parts.queue.next_due() is None, "only a change can help"


async def test_an_api_server_that_fails_delays_a_pass_and_loses_nothing(bed: Bed) -> None:
    bed.server.fail(503, matches=lambda request: request.path.endswith("/status"))
    bed.declare()
    await bed.settle()
    assert bed.events == []
    assert bed.driver.performed == []

    bed.server.faults.clear()
    await bed.advance(2)
    assert bed.status.phase == "Ready"


async def test_a_process_that_takes_over_describes_models_that_do_not_change(bed: Bed) -> None:
    await bed.rolled_out()
    await bed.advance(300)
    await bed.restart()
    assert bed.sample("decisionmodel_phase", phase="Ready") == 1.0
    assert bed.sample("decisionmodel_model_ready_replicas") == 1.0


async def test_a_later_caching_deadline_reaches_a_job_that_was_given_an_earlier_one(bed: Bed) -> None:
    bed.kubelet.prefetch = lambda _: False
    bed.declare(rollout={"timeouts": {"caching": "5m"}})
    await bed.settle()
    first = uid_of(bed.objects(JOBS)[0])
    await bed.advance(240)
    bed.declare(rollout={"timeouts": {"caching": "1h"}})
    await bed.settle()
    await bed.advance(70)
    (job,) = bed.objects(JOBS)
    assert uid_of(job) != first
    assert job["spec"]["activeDeadlineSeconds"] == 3600
    assert bed.status.phase == "Caching"
    bed.kubelet.prefetch = lambda _: None
    await bed.settle()
    assert bed.status.phase == "Ready"


async def test_a_job_runs_into_its_deadline_once(bed: Bed) -> None:
    bed.kubelet.prefetch = lambda _: False
    bed.declare(rollout={"timeouts": {"caching": "5m"}})
    await bed.settle()
    first = uid_of(bed.objects(JOBS)[0])
    await bed.advance(301)
    assert bed.status.phase == "Failed"
    assert bed.condition("Degraded")[1] == "CacheTimeout"
    assert {uid_of(job) for job in bed.objects(JOBS)} <= {first}

"""The readiness gate: what opens it, what closes it, and how little is written meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reconciler.controller.watched import DECISION_MODELS, PODS
from reconciler.engine.runtime import RuntimeClient
from tests.fakes.apiserver import Request
from tests.reconciler.controller.bed import Bed
from tests.reconciler.controller.runtimes import FakeRuntime

pytestmark = pytest.mark.anyio


def gate_writes(bed: Bed) -> list[Request]:
    """The requests that wrote a Pod's status."""
    return [request for request in bed.server.writes if "/pods/" in request.path]


async def test_a_proved_pod_gets_one_write_by_its_own_manager_for_its_own_uid(bed: Bed) -> None:
    await bed.rolled_out()
    (write,) = gate_writes(bed)
    (pod,) = bed.pods
    assert write.path.endswith(f"/pods/{pod['metadata']['name']}/status")
    assert write.query["fieldManager"] == "decisionmodel-gate"
    assert write.body["metadata"]["uid"] == pod["metadata"]["uid"]
    (condition,) = write.body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("decisionmodel.io/model-ready", "True")
    assert bed.runtime.calls == ["/api/decide", "/api/ps"]
    assert bed.runtime.requests[0].body == {"model": "laya:en", "keep_alive": -1}


def other_bytes(runtime: FakeRuntime) -> None:
    runtime.digest = "0" * 64


def other_device(runtime: FakeRuntime) -> None:
    runtime.device = "cuda:0"


def not_pinned(runtime: FakeRuntime) -> None:
    runtime.pinned = False


@pytest.mark.parametrize(
    ("fault", "reason", "result"),
    [
        (other_bytes, "DigestMismatch", "digest_mismatch"),
        (other_device, "DeviceMismatch", "device_mismatch"),
        (not_pinned, "NotPinned", "not_pinned"),
    ],
)
async def test_what_a_runtime_reports_wrongly_keeps_the_gate_closed_and_is_told_once(
    bed: Bed, fault: Callable[[FakeRuntime], None], reason: str, result: str
) -> None:
    bed.kubelet.adjust = fault
    bed.declare()
    await bed.settle()
    for _ in range(3):
        await bed.advance(4)

    assert bed.gate() == ("False", reason)
    assert bed.status.phase == "Starting"
    assert bed.selected is None
    assert len(gate_writes(bed)) == 1
    assert bed.events.count("ProbeMismatch") == 1
    assert bed.sample("decisionmodel_probe_results_total", result=result) == 1.0
    assert len(bed.runtime.calls) >= 4, "a closed gate is looked at again"


async def test_a_runtime_that_gets_well_opens_the_gate(bed: Bed) -> None:
    def refuse(runtime: FakeRuntime) -> None:
        runtime.refusal = 503

    bed.kubelet.adjust = refuse
    bed.declare()
    await bed.settle()
    assert bed.gate() == ("False", "ProbeError")

    bed.runtime.refusal = None
    await bed.advance(4.1)
    assert bed.gate() == ("True", "ModelReady")
    assert bed.status.phase == "Ready"
    assert "ProbeMismatch" not in bed.events


async def test_a_model_that_is_gone_from_memory_closes_the_gate_and_is_loaded_again(bed: Bed) -> None:
    await bed.rolled_out()
    bed.runtime.loaded = None
    await bed.advance(61)
    assert bed.gate() == ("False", "ProbeError")
    assert bed.condition("Ready")[:2] == ("False", "NoModelReadyPods")

    await bed.advance(4.1)
    assert bed.gate() == ("True", "ModelReady")
    assert bed.runtime.calls.count("/api/decide") == 2
    assert bed.status.phase == "Ready"


async def test_a_pin_that_a_client_replaced_is_set_again_by_the_next_probe(bed: Bed) -> None:
    await bed.rolled_out()
    runtime = bed.runtime

    def pin() -> None:
        runtime.pinned = True

    runtime.pinned, runtime.on_load = False, pin
    await bed.advance(61)
    assert bed.gate() == ("False", "NotPinned")

    await bed.advance(4.1)
    assert bed.gate() == ("True", "ModelReady")
    assert bed.status.phase == "Ready"


async def test_other_bytes_in_memory_close_an_open_gate(bed: Bed) -> None:
    await bed.rolled_out()
    bed.runtime.digest = "0" * 64
    await bed.advance(61)
    assert bed.gate() == ("False", "DigestMismatch")
    assert bed.events.count("ProbeMismatch") == 1


async def test_three_rounds_without_an_answer_are_tolerated_and_the_fourth_is_not(bed: Bed) -> None:
    await bed.rolled_out()
    bed.runtime.refusal = 401
    for _ in range(3):
        await bed.advance(60)
        assert bed.gate() == ("True", "ModelReady")
    assert len(gate_writes(bed)) == 1
    await bed.advance(60)
    assert bed.gate() == ("False", "ProbeError")


async def test_every_pass_over_a_ready_model_looks_however_early_it_comes(bed: Bed) -> None:
    await bed.rolled_out()
    bed.clock.fraction = 1.0
    await bed.next_pass()
    for looks in (3, 4, 5):
        assert await bed.next_pass() < 55
        assert bed.runtime.calls.count("/api/ps") == looks


async def test_an_answer_between_failures_starts_the_count_anew(bed: Bed) -> None:
    await bed.rolled_out()
    for refusal in (401, 401, 401, None, 401, 401, 401):
        bed.runtime.refusal = refusal
        await bed.advance(60)
    assert bed.gate() == ("True", "ModelReady")
    assert len(gate_writes(bed)) == 1


async def test_a_restarted_container_is_closed_before_it_is_loaded(bed: Bed) -> None:
    await bed.rolled_out()
    await bed.advance(30)
    (pod,) = bed.pods
    runtime = bed.runtime
    seen: list[int] = []
    runtime.on_load = lambda: seen.append(len(gate_writes(bed)))
    bed.kubelet.restart(pod)
    await bed.settle()

    assert seen == [2], "the gate was closed before the load"
    closed, opened = gate_writes(bed)[1:]
    assert closed.body["status"]["conditions"][0]["status"] == "False"
    assert opened.body["status"]["conditions"][0]["status"] == "True"
    assert bed.status.phase == "Ready"
    assert runtime.calls == ["/api/decide", "/api/ps", "/api/decide", "/api/ps"]


@pytest.mark.parametrize("ahead", [-600.0, -30.0, 30.0, 600.0])
async def test_the_clock_of_a_node_closes_no_gate_when_another_process_takes_over(bed: Bed, ahead: float) -> None:
    bed.kubelet.clock_ahead = ahead
    await bed.rolled_out()
    for _ in range(3):
        await bed.restart()
        await bed.advance(20)
    assert [write.body["status"]["conditions"][0]["status"] for write in gate_writes(bed)] == ["True"]
    assert bed.runtime.calls.count("/api/decide") == 1, "nothing was loaded again"
    assert bed.status.phase == "Ready"


@pytest.mark.parametrize("ahead", [-600.0, 600.0])
async def test_containers_that_start_anew_while_no_process_looks_lose_their_gate(bed: Bed, ahead: float) -> None:
    bed.kubelet.clock_ahead = ahead
    await bed.rolled_out()
    await bed.kill()
    bed.clock.seconds += 30
    bed.kubelet.restart(bed.pods[0])
    bed.start()
    await bed.settle()
    assert bed.gate() == ("False", "ProbeError")
    await bed.advance(4.1)
    assert bed.gate() == ("True", "ModelReady")
    assert bed.runtime.calls.count("/api/decide") == 2


async def test_a_pod_that_has_ended_is_not_asked(bed: Bed) -> None:
    await bed.rolled_out()
    (pod,) = bed.pods
    runtime = bed.runtime
    bed.kubelet.evict(pod)
    await bed.settle()
    asked = len(runtime.calls)
    await bed.advance(61)
    assert len(runtime.calls) == asked


async def test_a_pod_replaced_under_its_name_never_gets_the_others_proof(bed: Bed) -> None:
    """The Pod is replaced while its runtime is asked; the write names a UID that is gone."""
    replaced: list[str] = []

    def replace(runtime: FakeRuntime) -> None:
        def swap() -> None:
            if not replaced:
                (pod,) = bed.pods
                replaced.append(pod["metadata"]["uid"])
                bed.remove(PODS, pod["metadata"]["name"])

        runtime.on_load = swap

    bed.kubelet.adjust = replace
    bed.declare()
    await bed.settle()
    await bed.advance(5)

    (pod,) = bed.pods
    assert pod["metadata"]["uid"] not in replaced
    writes = gate_writes(bed)
    assert {write.body["metadata"]["uid"] for write in writes if write.status == 200} == {pod["metadata"]["uid"]}
    assert bed.runtime.calls[:2] == ["/api/decide", "/api/ps"], "the new Pod proves itself"
    assert bed.gate() == ("True", "ModelReady")


async def test_a_pod_that_only_wears_our_labels_is_not_asked(bed: Bed) -> None:
    await bed.rolled_out()
    (pod,) = bed.pods
    address = await bed.runtimes.start(FakeRuntime(digest="", device="cpu"))
    stranger = {
        "kind": "Pod",
        "metadata": {"name": "stranger", "namespace": "default", "labels": pod["metadata"]["labels"]},
        "status": {"podIP": address, "conditions": [{"type": "ContainersReady", "status": "True"}]},
    }
    bed.server.put("v1", "pods", stranger)
    await bed.settle()
    await bed.advance(61)
    assert bed.runtimes.by_address[address].calls == []


async def test_every_pod_of_a_revision_is_proved(bed: Bed) -> None:
    await bed.rolled_out(replicas=3)
    assert [bed.gate(pod) for pod in bed.pods] == [("True", "ModelReady")] * 3
    assert bed.sample("decisionmodel_probe_results_total", result="ready") == 3.0


def hang(runtime: FakeRuntime) -> None:
    runtime.hangs = True


async def test_a_pod_that_loads_is_not_looked_at_until_that_ends(bed: Bed) -> None:
    bed.kubelet.adjust = hang
    bed.declare()
    await bed.settle()
    assert bed.runtimes.hanging == 1
    await bed.advance(5)
    for _ in range(3):
        assert await bed.next_pass() > 4


async def test_loads_that_never_end_keep_nobody_else_from_being_probed(bed: Bed) -> None:
    await bed.rolled_out()
    (pod,), runtime = bed.pods, bed.runtime
    bed.kubelet.adjust = hang
    bed.declare("greedy", replicas=65)
    await bed.settle()
    assert bed.runtimes.hanging == 65
    await bed.advance(30)

    bed.kubelet.restart(pod)
    await bed.settle()
    assert [write.body["status"]["conditions"][0]["status"] for write in gate_writes(bed)] == ["True", "False", "True"]
    assert runtime.calls.count("/api/decide") == 2
    assert bed.status.phase == "Ready"


async def test_the_load_of_a_pod_that_is_gone_is_given_up(bed: Bed) -> None:
    bed.kubelet.adjust = hang
    bed.declare()
    await bed.settle()
    bed.kubelet.adjust = lambda _: None
    bed.remove(PODS, bed.pods[0]["metadata"]["name"])
    await bed.run_until(lambda: not bed.runtimes.hanging)
    await bed.settle()
    assert bed.status.phase == "Ready"


async def test_the_load_of_a_model_that_is_deleted_is_given_up(bed: Bed) -> None:
    bed.kubelet.adjust = hang
    bed.declare()
    await bed.settle()
    bed.delete()
    await bed.run_until(lambda: not bed.runtimes.hanging)


def tell_no_precision(runtime: FakeRuntime) -> None:
    runtime.precision = None


async def test_what_one_models_pods_report_is_not_told_of_another_model(bed: Bed) -> None:
    bed.declare("other")
    await bed.settle()
    bed.kubelet.adjust = tell_no_precision
    await bed.rolled_out()
    found = bed.get(DECISION_MODELS, "other")["status"]["stableRevision"]
    assert bed.status.stable_revision is not None
    assert (found["hash"], found["precision"]) == (bed.status.stable_revision.hash, "F32")
    assert bed.status.stable_revision.precision == ""


async def test_each_revision_has_the_precision_of_its_own_pods(bed: Bed) -> None:
    def tell_another(runtime: FakeRuntime) -> None:
        runtime.precision = "Q8_0"

    await bed.rolled_out()
    bed.kubelet.adjust = tell_another
    await bed.rolled_out(model="laya:en-better")
    status = bed.status
    assert status.stable_revision is not None
    assert status.previous_revision is not None
    assert status.stable_revision.precision == "Q8_0"
    assert status.previous_revision.revision.precision == "F32"


async def test_what_the_pods_of_a_deleted_model_reported_is_forgotten(bed: Bed) -> None:
    await bed.rolled_out()
    bed.delete()
    await bed.settle()
    bed.kubelet.adjust = tell_no_precision
    await bed.rolled_out()
    assert bed.status.stable_revision is not None
    assert bed.status.stable_revision.precision == ""


async def test_a_crash_loop_after_a_promotion_leads_back(bed: Bed) -> None:
    old = await bed.rolled_out()
    await bed.rolled_out(model="laya:en-better")

    def loop(pod: dict[str, object]) -> None:
        waiting = {"name": "ollaya", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        pod["status"]["containerStatuses"] = [waiting]  # type: ignore[index]  # JSON

    newest = next(pod for pod in bed.pods if pod["metadata"]["labels"]["decisionmodel.io/revision"] != old)
    bed.edit(PODS, newest["metadata"]["name"], loop)
    await bed.settle()
    assert bed.selected == old
    assert bed.status.phase == "RolledBack"
    assert bed.condition("Degraded")[:2] == ("True", "PostPromotionUnhealthy")
    assert bed.events.count("RolledBackAfterPromotion") == 1
    assert bed.sample("decisionmodel_rollouts_total", result="rolled_back_after_promotion") == 1.0


async def test_a_gate_that_cannot_be_written_is_told_and_not_tried_without_pause(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    await bed.rolled_out()
    await bed.advance(30)
    bed.server.fail(403, matches=lambda request: "/pods/" in request.path and request.method == "PATCH")
    bed.kubelet.restart(bed.pods[0])
    await bed.settle()
    assert len(gate_writes(bed)) == 2
    await bed.advance(4.1)
    assert len(gate_writes(bed)) == 3
    assert "could not be kept up" in caplog.text

    bed.server.faults.clear()
    await bed.advance(4.1)
    assert bed.status.phase == "Ready"
    assert bed.runtime.calls.count("/api/decide") == 2


def never_tells(runtime: FakeRuntime) -> None:
    runtime.silent_on = frozenset({"/api/ps"})


async def test_pods_that_never_answer_leave_room_for_the_probes_of_others(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = RuntimeClient.inspect.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "timeout_seconds", 600.0)
    bed.kubelet.adjust = never_tells
    bed.declare("greedy", namespace="greedy", replicas=40)
    await bed.run_until(lambda: bed.runtimes.hanging >= 24 and bed.parts.runtime_client.inspections.waiting())
    held = bed.parts.runtime_client.inspections.held()

    bed.kubelet.adjust = lambda _: None
    bed.declare()
    await bed.run_until(lambda: bed.status.phase == "Ready")
    assert held == {"greedy": 24}
    assert bed.parts.runtime_client.inspections.waiting(), "they are still at it"

"""The stack behind a model: failures and their pauses, conflicts with others' objects, and drift."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import deepcopy

import pytest

from reconciler.controller.watched import BUDGETS, CLAIMS, DEPLOYMENTS, JOBS, PODS, SERVICES
from reconciler.driver import DriverClosedError, FailureReason, Operation, OperationKind, Outcome
from tests.reconciler.controller.bed import KEY, Bed, Object
from tests.reconciler.controller.stack_engine import Trouble

pytestmark = pytest.mark.anyio


async def pauses_between_operations(bed: Bed, count: int) -> list[int]:
    """Let time pass until so many more operations ran; returns the seconds between them."""
    pauses = []
    for _ in range(count):
        before, since = len(bed.driver.performed), bed.clock.seconds
        while len(bed.driver.performed) == before:
            await bed.next_pass()
        pauses.append(round(bed.clock.seconds - since))
    return pauses


async def test_a_failure_that_may_pass_is_retried_with_growing_pauses(bed: Bed) -> None:
    bed.driver.trouble = [Trouble(FailureReason.UNREACHABLE, "connection refused", times=6)]
    bed.declare()
    await bed.settle()
    assert len(bed.driver.performed) == 1
    assert bed.condition("Cached") == (
        "False",
        "Caching",
        "the stack could not be converged: Unreachable: connection refused",
    )

    assert await pauses_between_operations(bed, 5) == [1, 2, 4, 8, 16]
    assert set(bed.driver.kinds[1:]) == {OperationKind.REFRESH_UP}, "what a failed operation did has to be looked at"
    await bed.advance(33)
    assert bed.status.phase == "Ready"
    assert "could not be converged" not in str(bed.status.conditions)


async def test_an_error_that_nobody_foresaw_is_a_failure_like_any_other(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    bed.driver.trouble = [Trouble(FailureReason.UNKNOWN, error=ZeroDivisionError("a bug"), times=4)]
    bed.declare()
    await bed.settle()
    assert len(bed.driver.performed) == 1
    assert "Unknown: ZeroDivisionError('a bug')" in bed.condition("Cached")[2]
    assert "Traceback" in caplog.text
    assert await pauses_between_operations(bed, 3) == [1, 2, 4]
    await bed.advance(9)
    assert bed.status.phase == "Ready"


async def test_a_stack_that_could_not_be_dropped_is_in_the_log(
    bed: Bed, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bed.rolled_out()

    async def refuse(_: Operation) -> Outcome:
        raise DriverClosedError("the driver is closed")

    monkeypatch.setattr(bed.driver, "run", refuse)
    bed.delete()
    await bed.settle()
    assert "stays until the next start" in caplog.text
    assert "the driver is closed" in caplog.text


async def test_a_failure_that_stays_is_retried_after_five_minutes(bed: Bed) -> None:
    bed.driver.trouble = [Trouble(FailureReason.INVALID_OBJECT, "spec.template: forbidden")]
    bed.declare()
    await bed.settle()
    await bed.advance(298)
    assert len(bed.driver.performed) == 1
    await bed.advance(3)
    assert bed.status.phase == "Ready"


async def test_another_spec_is_tried_at_once_after_a_failure_that_stays(bed: Bed) -> None:
    bed.driver.trouble = [Trouble(FailureReason.INVALID_OBJECT)]
    bed.declare(cache={"size": "1Gi"})
    await bed.settle()
    assert bed.status.phase == "Caching"
    await bed.rolled_out(cache={"size": "2Gi"})


async def test_what_a_failed_operation_left_behind_is_completed(bed: Bed) -> None:
    bed.driver.trouble = [Trouble(FailureReason.INTERRUPTED, after=1)]
    bed.declare()
    await bed.settle()
    assert [kind for kind, _ in bed.children] == ["PersistentVolumeClaim"]
    await bed.advance(1.1)
    assert bed.status.phase == "Ready"


async def test_an_operation_ends_with_its_model_and_its_stack_goes(bed: Bed) -> None:
    """In a namespace that is gone the engine would go on trying, on a worker that others wait for."""
    bed.driver.trouble = [Trouble(None, after=1)]
    bed.declare()
    await bed.settle()
    assert bed.driver.hanging == 1

    bed.delete()
    await bed.settle()

    assert bed.driver.hanging == 0
    assert bed.driver.kinds[-1] is OperationKind.REMOVE
    assert bed.driver.states == {}


async def test_the_stack_of_a_model_goes_that_was_deleted_while_its_status_was_written(bed: Bed) -> None:
    await bed.rolled_out()
    gone = bed.server.fail(404, times=1, matches=lambda request: request.path.endswith("/status"))
    bed.declare(replicas=2)
    await bed.run_until(lambda: not gone.remaining)
    bed.delete()
    await bed.advance(2)
    assert bed.driver.states == {}


async def test_a_namespace_that_goes_leaves_workers_for_those_that_live(bed: Bed) -> None:
    names = ("router", "second", "third")
    for name in names:
        bed.declare(name)
    await bed.advance(30)
    assert len(bed.driver.states) == len(names)
    bed.driver.removals_may_end.clear()
    for name in names:
        bed.delete(name)
    await bed.run_until(lambda: OperationKind.REMOVE in bed.driver.kinds)
    bed.declare("living")
    await bed.run_until(lambda: "living" in bed.driver.performed[-1].stack)
    assert bed.driver.kinds.count(OperationKind.REMOVE) == 1
    bed.driver.removals_may_end.set()
    await bed.run_until(lambda: len(bed.driver.states) == 1)
    assert "living" in next(iter(bed.driver.states))


async def test_only_what_moves_traffic_is_in_a_hurry(bed: Bed) -> None:
    revision = await bed.rolled_out()
    bed.edit(DEPLOYMENTS, f"router-{revision}", set_replicas)
    await bed.advance(61)
    assert not bed.driver.performed[-1].urgent
    bed.edit(SERVICES, "router", set_selector)
    await bed.advance(61)
    assert bed.driver.performed[-1].urgent


async def refuse_secrets(bed: Bed) -> None:
    bed.put_secret("keys", "secret")
    bed.declare(auth={"apiKeySecretRef": {"name": "keys", "key": "api-key"}})
    bed.server.fail(500, matches=lambda request: "/secrets/" in request.path)
    bed.start()
    await bed.settle()


async def outgrow_the_declared_api(bed: Bed) -> None:
    """As after a downgrade of the reconciler."""
    bed.declare(replicas="many")
    bed.start()
    await bed.settle()


@pytest.mark.parametrize("hinder", [refuse_secrets, outgrow_the_declared_api])
async def test_the_stack_of_a_model_goes_that_this_process_never_could_read(
    bed: Bed, hinder: Callable[[Bed], Awaitable[None]]
) -> None:
    await bed.rolled_out()
    await bed.kill()
    await hinder(bed)
    assert bed.driver.states
    bed.delete()
    await bed.advance(2)
    assert bed.driver.states == {}


async def test_a_stack_that_never_converges_ends_the_rollout_at_its_deadline(bed: Bed) -> None:
    bed.driver.trouble = [Trouble(FailureReason.REFUSED, "exceeded quota: storage", times=10_000)]
    bed.declare(rollout={"timeouts": {"caching": "2m"}})
    await bed.settle()
    await bed.advance(121)

    assert bed.status.phase == "Failed"
    status, reason, message = bed.condition("Degraded")
    assert (status, reason) == ("True", "CacheTimeout")
    assert "exceeded quota: storage" in message
    assert bed.events.count("Failed") == 1


async def test_a_prefetch_that_takes_too_long_is_rejected_at_its_deadline(bed: Bed) -> None:
    bed.kubelet.prefetch = lambda _: False
    bed.declare(rollout={"timeouts": {"caching": "2m"}})
    await bed.settle()
    await bed.advance(120)
    assert bed.status.phase == "Caching"
    await bed.advance(11)
    assert bed.condition("Degraded")[:2] == ("True", "CacheTimeout")
    assert bed.children == []


async def test_pods_that_do_not_start_are_rejected_at_the_deadline(bed: Bed) -> None:
    bed.kubelet.starts_containers = False
    bed.declare(rollout={"timeouts": {"starting": "1m"}})
    await bed.settle()
    assert bed.status.phase == "Starting"
    await bed.advance(61)
    await bed.advance(11)
    assert bed.condition("Degraded")[:2] == ("True", "StartTimeout")
    assert bed.children == []


async def test_while_an_operation_hangs_passes_go_on_and_no_second_one_starts(bed: Bed) -> None:
    await bed.rolled_out()
    bed.driver.trouble = [Trouble(None)]
    bed.declare(replicas=2)
    await bed.settle()
    inspections = len(bed.runtime.calls)
    await bed.advance(61)
    await bed.advance(61)

    assert len(bed.runtime.calls) > inspections
    assert bed.driver.hanging == 1
    assert len(bed.driver.performed) == 4
    await bed.restart()
    assert bed.status.replicas is not None
    assert bed.status.replicas.model_ready == 2


def foreign(kind: str, api_version: str, name: str, **fields: object) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": KEY.namespace, "labels": {"app": "other"}},
        "spec": fields,
    }


async def test_a_foreign_service_stops_the_rollout_and_is_not_touched(bed: Bed) -> None:
    mine = bed.server.put("v1", "services", foreign("Service", "v1", "router", selector={"app": "other"}))
    before = deepcopy(mine)
    bed.declare()
    await bed.settle()

    assert bed.condition("Ready")[:2] == ("False", "ResourceConflict")
    assert "Service default/router" in bed.condition("Ready")[2]
    assert bed.condition("Degraded")[:2] == ("True", "ResourceConflict")
    assert bed.get(SERVICES, "router") == before
    assert bed.events.count("ResourceConflict") == 1
    assert "Promoted" not in bed.events

    for _ in range(3):
        await bed.advance(31)
    assert bed.events.count("ResourceConflict") == 1, "told once"
    assert bed.get(SERVICES, "router") == before

    bed.remove(SERVICES, "router")
    await bed.advance(31)
    assert bed.status.phase == "Ready"
    assert bed.condition("Degraded") == ("", "", "")


async def test_a_foreign_claim_stops_the_rollout_and_is_not_touched(idle_bed: Bed) -> None:
    bed = idle_bed
    bed.start()
    revision = await bed.rolled_out()
    bed.delete()
    await bed.settle()
    name = f"router-store-{revision}"
    claim = foreign("PersistentVolumeClaim", "v1", name, resources={"requests": {"storage": "1Gi"}})
    before = deepcopy(bed.server.put("v1", "persistentvolumeclaims", claim))

    bed.declare()
    await bed.settle()
    assert bed.condition("Ready")[:2] == ("False", "ResourceConflict")
    assert bed.get(CLAIMS, name) == before
    assert bed.children == [("PersistentVolumeClaim", name)]

    bed.remove(CLAIMS, name)
    await bed.advance(31)
    await bed.advance(31)
    assert bed.status.phase == "Ready"


def set_replicas(obj: Object) -> None:
    obj["spec"]["replicas"] = 7


def set_image(obj: Object) -> None:
    obj["spec"]["template"]["spec"]["containers"][0]["image"] = "evil.example/image"


def set_selector(obj: Object) -> None:
    obj["spec"]["selector"]["decisionmodel.io/revision"] = "0" * 16


def add_variable(obj: Object) -> None:
    obj["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "HTTPS_PROXY", "value": "http://evil"})


def add_odd_variable(obj: Object) -> None:
    """The API server takes every printable name without an equals sign."""
    obj["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "A]B[\\", "value": "x"})


def add_container(obj: Object) -> None:
    obj["spec"]["template"]["spec"]["containers"].append({"name": "sidecar", "image": "evil.example/image"})


def add_volume(obj: Object) -> None:
    """As `kubectl set volume --add` does."""
    pod = obj["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
    pod["containers"][0]["volumeMounts"].append({"name": "host", "mountPath": "/host"})


def mount_again(obj: Object) -> None:
    mounts = obj["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    mounts.append({**mounts[0], "mountPath": "/etc"})


def set_registry(obj: Object) -> None:
    variables = obj["spec"]["template"]["spec"]["containers"][0]["env"]
    for variable in variables:
        if variable["name"] == "OLLAYA_REGISTRY":
            variable["value"] = "http://evil.example"


def remove_registry(obj: Object) -> None:
    variables = obj["spec"]["template"]["spec"]["containers"][0]["env"]
    variables[:] = [each for each in variables if each["name"] != "OLLAYA_REGISTRY"]


def add_template_annotation(obj: Object) -> None:
    obj["spec"]["template"]["metadata"]["annotations"] = {"decisionmodel.io/inject": "yes"}


def add_selector_key(obj: Object) -> None:
    obj["spec"]["selector"]["extra"] = "yes"


def add_label(obj: Object) -> None:
    obj["metadata"]["labels"]["decisionmodel.io/extra"] = "yes"


def roll_in_place(obj: Object) -> None:
    """As the API server fills it in after a patch of the type."""
    limits = {"maxSurge": "25%", "maxUnavailable": "25%"}
    obj["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": limits}


def probe_by_command(obj: Object) -> None:
    probe = obj["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]
    del probe["httpGet"]
    probe["exec"] = {"command": ["true"]}


@pytest.mark.parametrize(
    "edit",
    [
        set_replicas,
        set_image,
        set_registry,
        remove_registry,
        add_variable,
        add_odd_variable,
        add_container,
        add_volume,
        mount_again,
        add_template_annotation,
        add_label,
        roll_in_place,
        probe_by_command,
    ],
)
async def test_an_edited_deployment_is_as_declared_again(bed: Bed, edit: Callable[[Object], None]) -> None:
    revision = await bed.rolled_out()
    declared = deepcopy(bed.get(DEPLOYMENTS, f"router-{revision}"))
    await bed.advance(61)
    bed.edit(DEPLOYMENTS, f"router-{revision}", edit)
    await bed.settle()
    await bed.advance(10)
    await bed.advance(61)

    repaired = bed.get(DEPLOYMENTS, f"router-{revision}")
    assert repaired["spec"] == declared["spec"] or repaired["spec"]["template"]["metadata"]["annotations"] == {}
    assert repaired["metadata"]["labels"] == declared["metadata"]["labels"]
    assert bed.status.phase == "Ready"
    assert bed.status.stable_revision is not None
    assert bed.status.stable_revision.hash == revision


@pytest.mark.parametrize("edit", [set_selector, add_selector_key])
async def test_an_edited_service_is_as_declared_again(bed: Bed, edit: Callable[[Object], None]) -> None:
    await bed.rolled_out()
    declared = deepcopy(bed.get(SERVICES, "router")["spec"])
    await bed.advance(61)
    bed.edit(SERVICES, "router", edit)
    await bed.settle()
    await bed.advance(10)
    assert bed.get(SERVICES, "router")["spec"] == declared


async def test_an_edited_budget_is_as_declared_again(bed: Bed) -> None:
    """The API server refuses a budget with both limits: what was set goes in the write that brings ours back."""
    revision = await bed.rolled_out(replicas=2, cache={"accessModes": ["ReadWriteMany"]})
    declared = deepcopy(bed.get(BUDGETS, f"router-{revision}")["spec"])

    def ask_for_a_minimum(obj: Object) -> None:
        del obj["spec"]["maxUnavailable"]
        obj["spec"]["minAvailable"] = 1

    bed.edit(BUDGETS, f"router-{revision}", ask_for_a_minimum)
    await bed.settle()
    await bed.advance(10)
    assert bed.get(BUDGETS, f"router-{revision}")["spec"] == declared


async def test_who_undoes_every_repair_is_told_of_and_costs_ever_less(bed: Bed) -> None:
    """As an autoscaler of the Deployment does."""
    revision = await bed.rolled_out()
    before = len(bed.driver.performed)
    for _ in range(40):
        bed.edit(DEPLOYMENTS, f"router-{revision}", set_replicas)
        await bed.advance(25)
    assert 5 < len(bed.driver.performed) - before < 12
    status, reason, message = bed.condition("Degraded")
    assert (status, reason) == ("True", "StackFailed")
    assert f"spec.replicas of Deployment router-{revision} is put right and set otherwise" in message
    assert f"kubectl get deployment router-{revision} -n default -o yaml --show-managed-fields" in message
    assert bed.selected == revision

    for _ in range(15):
        await bed.advance(61)
    assert bed.condition("Degraded") == ("", "", "")
    assert bed.get(DEPLOYMENTS, f"router-{revision}")["spec"]["replicas"] == 1


@pytest.mark.parametrize("key", ["kubectl.kubernetes.io/restartedAt", "cattle.io/timestamp", "noted"])
async def test_a_restart_by_another_tool_is_left_alone(bed: Bed, key: str) -> None:
    revision = await bed.rolled_out()
    operations = len(bed.driver.performed)

    def restart(obj: Object) -> None:
        obj["spec"]["template"]["metadata"]["annotations"] = {key: "now"}

    bed.edit(DEPLOYMENTS, f"router-{revision}", restart)
    await bed.settle()
    await bed.advance(61)
    template = bed.get(DEPLOYMENTS, f"router-{revision}")["spec"]["template"]
    assert template["metadata"]["annotations"] == {key: "now"}
    assert len(bed.driver.performed) == operations
    assert bed.status.phase == "Ready"


@pytest.mark.parametrize("resource", [DEPLOYMENTS, SERVICES], ids=lambda resource: resource.kind)
async def test_a_deleted_object_is_made_again_by_an_operation_that_looks(bed: Bed, resource: object) -> None:
    revision = await bed.rolled_out()
    await bed.advance(61)
    operations = len(bed.driver.performed)
    bed.remove(
        DEPLOYMENTS if resource is DEPLOYMENTS else SERVICES,
        f"router-{revision}" if resource is DEPLOYMENTS else "router",
    )
    await bed.settle()
    await bed.advance(5)

    assert bed.status.phase == "Ready"
    assert bed.selected == revision
    assert bed.driver.kinds[operations:] == [OperationKind.REFRESH_UP]


async def test_an_owned_object_that_no_stack_knows_is_deleted(bed: Bed) -> None:
    revision = await bed.rolled_out()
    await bed.advance(61)
    stray = deepcopy(bed.get(DEPLOYMENTS, f"router-{revision}"))
    stray["metadata"] = {
        key: stray["metadata"][key] for key in ("namespace", "labels", "ownerReferences", "annotations")
    } | {"name": "router-0123456789abcdef"}
    bed.server.put("apps/v1", "deployments", stray)
    await bed.settle()
    await bed.advance(10)
    assert [name for kind, name in bed.children if kind == "Deployment"] == [f"router-{revision}"]


async def test_a_foreign_object_with_our_label_survives(bed: Bed) -> None:
    await bed.rolled_out()
    other = foreign(
        "Deployment",
        "apps/v1",
        "other",
        replicas=1,
        selector={},
        template={"metadata": {"labels": {}}, "spec": {"containers": [{"name": "a", "env": []}]}},
    )
    other["metadata"]["labels"]["decisionmodel.io/name"] = KEY.name
    bed.kubelet.starts_containers = False
    bed.server.put("apps/v1", "deployments", other)
    await bed.settle()
    await bed.advance(61)
    assert bed.get(DEPLOYMENTS, "other")["spec"]["replicas"] == 1
    assert bed.status.phase == "Ready"


async def test_a_finished_job_that_was_deleted_is_not_run_again(bed: Bed) -> None:
    revision = await bed.rolled_out()
    await bed.advance(61)
    bed.remove(JOBS, f"router-pf-{revision}")
    await bed.settle()
    await bed.advance(61)
    assert not bed.objects(JOBS)
    assert bed.status.phase == "Ready"
    assert bed.gate(bed.pods[0])[0] == "True"
    assert bed.objects(PODS)


async def test_operations_are_counted_by_kind_and_result(bed: Bed) -> None:
    bed.driver.trouble = [Trouble(FailureReason.LOCKED)]
    bed.declare()
    await bed.settle()
    await bed.advance(2)
    total = "decisionmodel_stack_operations_total"
    value = bed.parts.registry.get_sample_value
    assert value(total, {"kind": "Up", "result": "Locked"}) == 1.0
    assert (value(total, {"kind": "Up", "result": "succeeded"}) or 0) >= 1.0
    assert (value("decisionmodel_stack_operation_duration_seconds_count", {"kind": "Up"}) or 0) >= 2.0


async def test_a_failure_is_told_no_longer_once_nothing_differs(bed: Bed) -> None:
    stable = await bed.rolled_out()
    await bed.advance(400)
    bed.driver.trouble = [Trouble(FailureReason.REFUSED, "denied by quota", times=10_000)]
    bed.declare(model="laya:en-better")
    await bed.settle()
    bed.declare()
    await bed.settle()
    await bed.advance(61)
    assert bed.condition("Degraded") == ("", "", "")
    assert (bed.status.phase, bed.selected) == ("Ready", stable)

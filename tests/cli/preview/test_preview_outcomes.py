"""What a preview comes to, and that it reads no more than it needs and writes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api.keys import RETRY_ANNOTATION
from cli.errors import InputError
from cli.forecast import Forecast, Outcome
from cli.forecast.forecast import Restart
from cli.forecast.worst_case import Impact
from policy import read_configuration
from reconciler.engine.images import RuntimeVersion, RuntimeVersionPolicy
from tests.cli.preview.asking import Asked
from tests.cli.preview.changes import REFUSED
from tests.cli.preview.happenings import predicted
from tests.cli.preview.rights import documented_role
from tests.reconciler.controller.bed import KEY
from tests.reconciler.controller.kubelet import Failed
from tools.standin.registry.failures import Status

pytestmark = pytest.mark.anyio

GIB = 1024**3
RESOURCES = {"requests": {"cpu": "1", "memory": "3Gi"}, "limits": {"memory": "4Gi"}}
GATE: dict[str, Any] = {"datasetRef": {"configMapRef": {"name": "golden", "key": "cases"}}, "minAccuracy": "0.8"}
SHARED = {"accessModes": ["ReadWriteMany"]}
STATISTICS = {"method": "paired", "nonInferiorityMargin": "0.05"}
QUESTION = {"type": "choice", "criteria": {"billing": "money", "tech": "machines"}}


def dataset(count: int, rare: int = 0) -> dict[str, Any]:
    """A ConfigMap with a golden data set; `rare` cases of it expect the second label."""
    labels = ["tech"] * rare + ["billing"] * (count - rare)
    lines = (json.dumps({"state": "s", "questions": {"q": QUESTION}, "expected": {"q": label}}) for label in labels)
    metadata = {"name": "golden", "namespace": KEY.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"cases": "\n".join(lines)}}


def reason(told: Forecast) -> str:
    assert told.outcome in (Outcome.REFUSED, Outcome.ERROR)
    assert told.refused is not None
    assert told.refused.message
    return told.refused.reason


# Reading only.


async def test_a_preview_writes_nothing_and_reads_no_secret(asked: Asked) -> None:
    asked.bed.put_secret("keys", "canary-key")
    asked.bed.start()
    await asked.bed.rolled_out()
    await asked.bed.kill()
    asked.bed.server.requests.clear()
    asked.bed.registry.forget_requests()

    auth = {"apiKeySecretRef": {"name": "keys", "key": "api-key"}}
    told = await asked.forecast(model="laya:en-better", auth=auth, rollout={"evaluation": GATE})

    assert told.outcome is Outcome.NEW_REVISION
    assert asked.bed.server.writes == []
    assert [request.path for request in asked.bed.server.requests if "/secrets" in request.path] == []
    assert [request.path for request in asked.bed.registry.requests] == ["/v2/library/laya/manifests/en-better"]
    assert "Secret keys (auth.apiKeySecretRef) was not read" in " ".join(told.notes)


async def test_a_preview_reads_with_all_of_the_documented_rights_and_no_other(asked: Asked) -> None:
    asked.bed.start()
    await asked.bed.rolled_out()
    await asked.bed.kill()
    asked.bed.server.requests.clear()

    # The second is new, and so its Service's name has to be free.
    other = asked.manifest()
    other["metadata"]["name"] = "other"
    changed = asked.manifest(model="laya:en-better", replicas=2, cache=SHARED, rollout={"evaluation": GATE})
    await asked.preview(changed, other)

    used = {used_right(request.path) for request in asked.bed.server.requests}
    rules = documented_role()["rules"]
    assert used == {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}


def used_right(path: str) -> tuple[str, str]:
    """Return verb and resource of a request that reads."""
    resource, *name = path.partition("/namespaces/default/")[2].split("/")
    return ("get" if name else "list"), resource


async def test_an_unchanged_manifest_is_nothing_to_do_and_asks_no_registry(asked: Asked) -> None:
    asked.bed.start()
    await asked.bed.rolled_out()
    asked.bed.registry.forget_requests()

    told = await asked.forecast()

    assert (told.outcome, told.fields, told.objects, told.refused) == (Outcome.NOTHING, (), (), None)
    assert asked.bed.registry.requests == []


async def test_one_tag_is_asked_for_once(asked: Asked) -> None:
    other = asked.manifest()
    other["metadata"]["name"] = "other"
    first, second = await asked.preview(asked.manifest(), other)
    assert first.forecast.after is not None
    assert first.forecast.after == second.forecast.after
    assert len(asked.bed.registry.requests) == 1


# Refusals.


@pytest.mark.parametrize("serving", [False, True], ids=["first", "serving"])
async def test_what_the_reconciler_refuses_is_refused_with_its_reason(asked: Asked, *, serving: bool) -> None:
    if serving:
        asked.bed.start()
        await asked.bed.rolled_out()
    for spec, expected in REFUSED.values():
        told = await asked.forecast(**spec)
        assert (reason(told), told.objects) == (expected, ()), spec


async def test_a_mandatory_rule_in_the_loop_refuses(asked: Asked) -> None:
    rules = {"rules": {"evaluation-required": {"environments": ["prod"]}}}
    asked.allow(policy=read_configuration(rules, "prod"))
    assert reason(await asked.forecast()) == "PolicyViolation"


async def test_mandatory_findings_refuse_what_the_platform_would_do(asked: Asked) -> None:
    asked.allow(allow_image_override=True)
    (told,) = await asked.preview(asked.manifest(image="registry.example.com/own:1"))
    assert told.forecast.outcome is Outcome.NEW_REVISION
    assert told.outcome is Outcome.REFUSED
    assert told.refused is not None
    assert told.refused.reason == "PolicyViolation"


async def test_an_object_of_another_owner_is_a_conflict(asked: Asked) -> None:
    metadata = {"name": "router", "namespace": KEY.namespace}
    asked.bed.server.put("v1", "services", {"kind": "Service", "metadata": metadata, "spec": {}})
    told = await asked.forecast()
    assert reason(told) == "ResourceConflict"
    assert told.refused is not None
    asked.bed.start()
    asked.bed.declare()
    await asked.bed.settle()
    assert asked.bed.condition("Ready") == ("False", "ResourceConflict", told.refused.message)


async def test_a_revision_that_was_rejected_before_needs_the_retry_annotation(asked: Asked) -> None:
    asked.bed.start()
    old = await asked.bed.rolled_out()
    asked.bed.kubelet.prefetch = lambda name: None if old in name else Failed()
    asked.bed.declare(model="laya:en-better")
    await asked.bed.settle()

    unchanged = await asked.forecast(model="laya:en-better")
    assert unchanged.outcome is Outcome.NOTHING
    assert "was rejected: PrefetchFailed" in unchanged.notes[0]

    edited = await asked.forecast(model="laya:en-better", replicas=2)
    assert reason(edited) == "PrefetchFailed"

    again = await asked.forecast({RETRY_ANNOTATION: "once-more"}, model="laya:en-better")
    assert again.outcome is Outcome.NEW_REVISION
    assert [each.path for each in again.fields] == [f"metadata.annotations[{RETRY_ANNOTATION}]"]
    asked.bed.kubelet.prefetch = lambda _: None
    happened = await asked.carry_out({RETRY_ANNOTATION: "once-more"}, model="laya:en-better")
    assert predicted(again) == happened


# What cannot be told.


async def test_an_unreachable_registry_is_an_error_that_names_it(asked: Asked) -> None:
    asked.bed.registry.fail_next("/v2/library/laya/manifests/en", Status(503), times=None)
    told = await asked.forecast()
    assert told.outcome is Outcome.ERROR
    assert reason(told) == "ResolveFailed"
    assert told.refused is not None
    assert "manifests/en: status 503" in told.refused.message


async def test_an_unreachable_api_server_is_an_error_with_a_next_step(asked: Asked) -> None:
    await asked.bed.server.stop()
    with pytest.raises(InputError, match=r"ConnectionFailed[\s\S]*--offline"):
        await asked.forecast()
    await asked.bed.server.start()


@pytest.mark.parametrize(("variable", "value"), [("HTTPS_PROXY", "socks5://proxy:1080"), ("SSL_CERT_FILE", "missing")])
async def test_an_environment_in_which_no_registry_can_be_asked_is_an_error_with_a_next_step(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError, match=rf"{variable}[\s\S]*--offline"):
        await asked.forecast()


async def test_missing_rights_are_named(asked: Asked) -> None:
    asked.bed.server.fail(403, matches=lambda request: "decisionmodels" in request.path)
    with pytest.raises(InputError, match=r"decisionmodels/router: 403"):
        await asked.forecast()


# Rollouts.


async def test_blue_green_needs_room_for_both_and_leaves_the_serving_revision_alone(asked: Asked) -> None:
    asked.bed.start()
    await asked.bed.rolled_out(resources=RESOURCES, replicas=2)
    told = await asked.forecast(model="laya:en-better", resources=RESOURCES, replicas=2)

    assert told.needs is not None
    assert told.worst is not None
    extra = told.needs.extra
    assert [extra.memory, extra.memory_limit, extra.cpu] == [6 * GIB, 8 * GIB, 2]
    assert told.needs.after == told.needs.before
    assert told.worst.impact is Impact.UNTOUCHED
    assert [(each.reason, each.phase) for each in told.worst.endings] == [
        ("CacheTimeout", "RolledBack"),
        ("StartTimeout", "RolledBack"),
    ]
    assert (told.worst.seconds, told.worst.watched_seconds) == (2400, 300)


async def test_recreate_needs_no_second_place_and_interrupts(asked: Asked) -> None:
    rollout = {"strategy": "Recreate", "timeouts": {"starting": "5m"}, "evaluation": GATE}
    asked.bed.start()
    await asked.bed.rolled_out(resources=RESOURCES, rollout={})
    told = await asked.forecast(model="laya:en-better", resources=RESOURCES, rollout=rollout)

    assert told.needs is not None
    assert told.worst is not None
    # The prefetch Job runs beside what serves; after that one of both does.
    assert told.needs.extra.memory == GIB / 4
    assert told.worst.impact is Impact.INTERRUPTED
    assert told.worst.outage_seconds == 300 + 600
    assert [each.reason for each in told.worst.endings] == ["CacheTimeout", "StartTimeout", "EvaluationTimeout"]


async def test_a_gpu_is_counted(asked: Asked) -> None:
    told = await asked.forecast(device="cuda", replicas=2)
    assert told.needs is not None
    assert told.needs.extra.gpus == 2


async def test_a_manual_promotion_waits_without_a_deadline(asked: Asked) -> None:
    asked.bed.start()
    await asked.bed.rolled_out()
    told = await asked.forecast(model="laya:en-better", rollout={"promotion": "Manual"})
    assert told.worst is not None
    assert told.worst.waits_for_approval


async def test_pods_on_a_shared_store_are_replaced_while_they_run(asked: Asked) -> None:
    shared: dict[str, Any] = {"cache": {"accessModes": ["ReadWriteMany"]}, "resources": RESOURCES, "replicas": 4}
    asked.bed.put_secret("keys", "sesame")
    asked.bed.start()
    await asked.bed.rolled_out(**shared)
    told = await asked.forecast(**shared, auth={"apiKeySecretRef": {"name": "keys", "key": "api-key"}})
    assert told.restart is Restart.ROLLING
    assert told.needs is not None
    assert told.needs.extra.memory == 3 * GIB, "a quarter more Pods"


async def test_a_rollout_under_way_is_told(asked: Asked) -> None:
    asked.bed.start()
    old = await asked.bed.rolled_out()
    asked.bed.kubelet.prefetch = lambda name: None if old in name else False
    asked.bed.declare(model="laya:en-better")
    await asked.bed.settle()

    same = await asked.forecast(model="laya:en-better")
    assert same.outcome is Outcome.NOTHING
    assert "is being rolled out already (phase Caching)" in same.notes[0]

    third = await asked.forecast(model="laya:en-equal")
    assert third.outcome is Outcome.NEW_REVISION
    assert "is abandoned" in third.notes[0]
    asked.bed.kubelet.prefetch = lambda _: None
    assert predicted(third) == await asked.carry_out(model="laya:en-equal")


async def test_a_newer_operator_rolls_only_where_it_is_followed(asked: Asked) -> None:
    asked.bed.start()
    await asked.bed.rolled_out()
    newer = RuntimeVersion(0, 99, 0)
    asked.allow(default_version=newer, allow_unpinned_images=True)
    assert (await asked.forecast()).outcome is Outcome.NOTHING

    asked.allow(runtime_version_policy=RuntimeVersionPolicy.FOLLOW_OPERATOR)
    told = await asked.forecast()
    assert (told.outcome, told.fields) == (Outcome.NEW_REVISION, ())
    assert "is not pinned to a digest" in " ".join(told.notes)


async def test_a_moved_tag_is_told_where_a_digest_is_pinned(asked: Asked) -> None:
    told = await asked.forecast(digest="ab" * 32)
    assert told.outcome is Outcome.NEW_REVISION
    assert told.download is None
    assert "UpstreamTagMoved" in " ".join(told.notes)


async def test_a_cache_that_cannot_follow_is_told(asked: Asked) -> None:
    asked.bed.start()
    await asked.bed.rolled_out()
    told = await asked.forecast(cache={"size": "1Gi"})
    assert (told.outcome, told.objects) == (Outcome.IN_PLACE, ())
    assert told.notes[0].startswith("CacheSpecImmutable: size stays 10Gi")


# Gates.


async def test_the_gates_power_is_told_from_the_data_set_among_the_manifests(asked: Asked) -> None:
    asked.bed.start()
    await asked.bed.rolled_out()
    gated = asked.manifest(model="laya:en-better", rollout={"evaluation": {**GATE, "statistics": STATISTICS}})
    (told,) = await asked.preview(dataset(200, rare=5), gated)

    gate = told.forecast.gate
    assert gate is not None
    assert gate.power is not None
    assert (gate.items, gate.dataset, gate.thresholds) == (200, "cm/golden/cases", {"minAccuracy": "0.8"})
    assert gate.power.label_drops["q=tech"] is None
    assert "never promotes: too few items (minItemsPerLabel 20) of q=tech" in gate.warnings


async def test_a_data_set_in_the_cluster_is_read(asked: Asked) -> None:
    asked.bed.server.put("v1", "configmaps", dataset(100))
    told = await asked.forecast(rollout={"evaluation": {**GATE, "statistics": STATISTICS}})
    assert told.gate is not None
    assert told.gate.items == 100
    assert "nothing serves yet to compare with" in " ".join(told.gate.warnings)


async def test_a_gate_that_cannot_fire_is_told(asked: Asked) -> None:
    asked.bed.start()
    await asked.bed.rolled_out()
    evaluation = {**GATE, "statistics": {**STATISTICS, "minItemsPerLabel": 1}}
    (few,) = await asked.preview(dataset(4), asked.manifest(model="laya:en-better", rollout={"evaluation": evaluation}))
    assert few.forecast.gate is not None
    assert any(warning.startswith("cannot fire: with so few") for warning in few.forecast.gate.warnings)
    assert any("too few items for its loss to be proven of q=" in warning for warning in few.forecast.gate.warnings)

    (none,) = await asked.preview(dataset(8), asked.manifest(rollout={"evaluation": {**GATE, "minAccuracy": "0"}}))
    assert none.forecast.gate is not None
    assert any(warning.startswith("cannot fire: minAccuracy 0") for warning in none.forecast.gate.warnings)


@pytest.mark.parametrize(
    ("content", "expected"),
    [(None, "DatasetNotFound"), ({"other": "x"}, "DatasetKeyNotFound"), ({"cases": "{"}, "DatasetInvalid")],
)
async def test_an_unusable_data_set_is_told_with_the_conditions_reason(
    asked: Asked, content: dict[str, str] | None, expected: str
) -> None:
    if content is not None:
        asked.bed.server.put("v1", "configmaps", {**dataset(1), "data": content})
    told = await asked.forecast(rollout={"evaluation": GATE})
    assert told.gate is not None
    assert told.gate.warnings[0].startswith(f"{expected}: ")

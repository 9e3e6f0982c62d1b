"""Asking the registry: what is asked, how often, and what a refusal or an outage means for what serves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reconciler.controller.bed import Bed
from tests.reconciler.controller.kubelet import Failed
from tools.standin.registry import Status

pytestmark = pytest.mark.anyio

MANIFESTS = "/v2/*/manifests/*"


def asked(bed: Bed) -> int:
    """How many requests the registry got."""
    return len(bed.registry.requests)


async def test_a_missing_tag_is_asked_for_again_every_five_minutes(bed: Bed) -> None:
    bed.declare(model="laya:nowhere")
    await bed.settle()
    assert bed.status.phase == "Failed"
    assert bed.condition("Resolved")[:2] == ("False", "ModelNotFound")
    assert bed.condition("Ready")[:2] == ("False", "ModelNotFound")
    assert asked(bed) == 1

    await bed.advance(298)
    assert asked(bed) == 1
    await bed.advance(3)
    assert asked(bed) == 2

    bed.registry.move_tag("laya:nowhere", "laya:en")
    await bed.advance(301)
    assert bed.status.phase == "Ready"


async def test_a_registry_in_trouble_is_asked_again_with_growing_pauses(bed: Bed) -> None:
    bed.registry.fail_next(MANIFESTS, Status(500), None)
    bed.declare()
    await bed.settle()
    assert bed.status.phase == "Resolving"
    assert bed.condition("Resolved")[:2] == ("False", "ResolveFailed")

    pauses = []
    for _ in range(5):
        before, since = asked(bed), bed.clock.seconds
        while asked(bed) == before:
            await bed.next_pass()
        pauses.append(round(bed.clock.seconds - since))
    assert pauses == [1, 2, 4, 8, 16]

    bed.registry.clear_failures()
    await bed.advance(33)
    assert bed.status.phase == "Ready"


async def test_a_registry_in_trouble_does_not_touch_what_serves(bed: Bed) -> None:
    stable = await bed.rolled_out()
    bed.registry.fail_next(MANIFESTS, Status(503), None)
    bed.declare(model="laya:en-better")
    await bed.settle()

    assert bed.status.phase == "Ready"
    assert bed.selected == stable
    assert bed.condition("Resolved")[:2] == ("False", "ResolveFailed")
    assert bed.condition("Ready")[:2] == ("True", "Ready")
    assert bed.events.count("CandidateRejected") == 1

    bed.registry.clear_failures()
    await bed.advance(2)
    assert bed.selected != stable
    assert bed.condition("Resolved")[0] == "True"


async def test_a_registry_that_is_not_allowed_is_never_called(bed: Bed) -> None:
    bed.declare(model="elsewhere.example/library/laya:en")
    await bed.settle()

    assert bed.status.phase == "Failed"
    assert bed.condition("Ready")[:2] == ("False", "RegistryNotAllowed")
    assert asked(bed) == 0
    assert bed.driver.performed == []
    assert bed.parts.queue.next_due() is None, "only a changed spec can help"


async def test_a_bad_name_leaves_what_serves_alone(bed: Bed) -> None:
    stable = await bed.rolled_out()
    before = asked(bed)
    bed.declare(model="../../etc:passwd")
    await bed.settle()

    assert bed.condition("Resolved")[:2] == ("False", "InvalidModelName")
    assert (bed.status.phase, bed.selected, asked(bed)) == ("Ready", stable, before)


async def test_a_tag_that_moves_rolls_nothing_out_by_itself(bed: Bed) -> None:
    stable = await bed.rolled_out()
    bed.registry.move_tag("laya:en", "laya:en-better")
    await bed.rolled_out(replicas=2)
    await bed.advance(61)
    await bed.restart()

    assert bed.selected == stable
    assert asked(bed) == 1


async def test_a_moved_tag_is_not_taken_up_after_a_rejection_either(bed: Bed) -> None:
    bed.kubelet.prefetch = lambda _: Failed()
    bed.declare()
    await bed.settle()
    assert bed.status.phase == "Failed"
    bed.registry.move_tag("laya:en", "laya:en-better")
    await bed.advance(61)
    await bed.restart()
    assert (bed.status.phase, asked(bed)) == ("Failed", 1)


async def test_a_pinned_digest_needs_no_registry(bed: Bed) -> None:
    digest = bed.registry.digest("laya:en")
    bed.registry.fail_next(MANIFESTS, Status(500), None)
    await bed.rolled_out(digest=digest)
    assert asked(bed) == 0


async def test_a_retry_token_tries_a_rejected_revision_once_more(bed: Bed) -> None:
    bed.kubelet.prefetch = lambda _: Failed(exit_code=1, message="")
    bed.declare()
    await bed.settle()
    assert bed.status.phase == "Failed"
    tries = bed.events.count("PrefetchStarted")
    await bed.advance(600)
    assert bed.events.count("PrefetchStarted") == tries, "nothing is retried by itself"

    token = {"decisionmodel.io/retry": "again"}
    bed.declare(annotations=token)
    await bed.settle()
    assert bed.status.phase == "Failed"
    assert bed.sample("decisionmodel_rollouts_total", result="failed") == 2.0

    await bed.advance(600)
    await bed.restart()
    assert bed.status.last_retry_token == "again"
    assert bed.status.phase == "Failed"
    assert bed.driver.performed == [], "the same token again does nothing"

    bed.kubelet.prefetch = lambda _: None
    bed.declare(annotations={"decisionmodel.io/retry": "once more"})
    await bed.settle()
    assert bed.status.phase == "Ready"

    bed.declare(annotations={"decisionmodel.io/retry": "for nothing"})
    await bed.settle()
    assert bed.events.count("RetryNoop") == 1


async def test_each_call_of_a_registry_is_measured_and_no_other(bed: Bed) -> None:
    await bed.rolled_out()
    await bed.advance(61)
    count = "decisionmodel_registry_resolve_duration_seconds_count"
    assert bed.parts.registry.get_sample_value(count) == 1.0


async def test_the_registry_gets_one_request_without_credentials(bed: Bed) -> None:
    await bed.rolled_out()
    assert [request.path for request in bed.registry.requests] == ["/v2/library/laya/manifests/en"]
    assert bed.registry.requests[0].header("Authorization") is None


@pytest.mark.parametrize("edit", [{}, {"model": "laya:en-better"}], ids=["the same model", "another model"])
async def test_a_version_that_cannot_run_asks_the_registry_nothing(bed: Bed, edit: dict[str, Any]) -> None:
    stable = await bed.rolled_out()
    before = asked(bed)
    bed.declare(runtimeVersion="0.5.0", **edit)
    await bed.settle()
    await bed.advance(61)
    assert bed.condition("Degraded")[:2] == ("True", "RuntimeVersionUnsupported")
    assert (bed.status.phase, bed.selected, asked(bed)) == ("Ready", stable, before)


@pytest.mark.parametrize(
    "again",
    [{"annotations": {"decisionmodel.io/retry": "again"}}, {"resources": {"requests": {"cpu": "2"}}}],
    ids=["a retry", "another revision"],
)
async def test_whoever_tries_again_after_a_rejection_gets_what_the_tag_stands_for_now(
    bed: Bed, again: dict[str, Any]
) -> None:
    bed.kubelet.prefetch = lambda _: Failed()
    bed.declare()
    await bed.settle()
    assert bed.status.phase == "Failed"
    bed.registry.move_tag("laya:en", "laya:en-better")
    bed.kubelet.prefetch = lambda _: None
    bed.declare(**again)
    await bed.settle()
    assert bed.status.phase == "Ready"
    assert bed.status.stable_revision is not None
    assert bed.status.stable_revision.digest == bed.registry.digest("laya:en-better")
    assert asked(bed) == 2


async def test_an_answer_that_waited_for_something_else_is_asked_for_again(bed: Bed) -> None:
    await bed.rolled_out()
    token = {"downloadTokenSecretRef": {"name": "token", "key": "token"}}
    bed.declare(model="laya:multilingual", cache=token)
    await bed.settle()
    assert bed.condition("Degraded")[1] == "DownloadTokenInvalid"
    bed.registry.move_tag("laya:multilingual", "laya:en-better")
    await bed.advance(122)
    bed.put_secret("token", "t", label="decisionmodel.io/download-token", key="token")
    await bed.advance(61)
    assert bed.status.stable_revision is not None
    assert bed.status.stable_revision.digest == bed.registry.digest("laya:en-better")

"""API keys and download tokens: which Secrets count, when Pods are rolled, and that no value leaves by a side door."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reconciler.controller.watched import DEPLOYMENTS, PODS
from tests.reconciler.controller.bed import Bed, Object

pytestmark = pytest.mark.anyio

CANARY = "canary-5d41402abc4b2a76"
KEYED: dict[str, Any] = {"auth": {"apiKeySecretRef": {"name": "key", "key": "api-key"}}}
TOKEN: dict[str, Any] = {"cache": {"downloadTokenSecretRef": {"name": "token", "key": "token"}}}
CHECKSUM = "decisionmodel.io/apikey-checksum"


def deployment(bed: Bed) -> Object:
    (found,) = bed.objects(DEPLOYMENTS)
    return found


def checksums(bed: Bed) -> tuple[str | None, str | None]:
    """The checksum on the Deployment and on its Pod template."""
    found = deployment(bed)
    template = found["spec"]["template"]["metadata"].get("annotations", {})
    return found["metadata"]["annotations"].get(CHECKSUM), template.get(CHECKSUM)


async def test_the_key_reaches_the_pods_and_nothing_else(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    bed.put_secret("key", CANARY)
    bed.put_secret("token", f"{CANARY}-token", label="decisionmodel.io/download-token", key="token")
    bed.declare(**KEYED, **TOKEN)
    await bed.settle()
    assert bed.status.phase == "Ready"
    bed.runtime.refusal = 401
    for _ in range(4):
        await bed.advance(60)
    bed.put_secret("key", f"{CANARY}\x00broken")
    await bed.advance(61)

    assert all(request.headers["authorization"] == f"Bearer {CANARY}" for request in bed.runtime.requests)
    assert CANARY not in caplog.text
    said = [request.body for request in bed.server.requests] + [request.path for request in bed.server.requests]
    assert CANARY not in json.dumps(said)
    kept = [obj for change in bed.server.store.history for obj in (change.new,) if obj and obj.get("kind") != "Secret"]
    assert CANARY not in json.dumps(kept)
    assert CANARY not in repr(bed.driver.performed) + repr(bed.driver.states)
    assert all(CANARY not in str(request.headers) for request in bed.registry.requests)


@pytest.mark.parametrize(
    ("label", "key", "value", "reason"),
    [
        (None, "api-key", "k", "SecretNotAllowed"),
        ("decisionmodel.io/download-token", "api-key", "k", "SecretNotAllowed"),
        ("decisionmodel.io/api-key", "other", "k", "APIKeyInvalid"),
        ("decisionmodel.io/api-key", "api-key", "  ", "APIKeyInvalid"),
    ],
)
async def test_a_secret_that_may_not_be_used_stops_a_first_rollout(
    bed: Bed, label: str | None, key: str, value: str, reason: str
) -> None:
    bed.put_secret("key", value, label=label, key=key)
    bed.declare(**KEYED)
    await bed.settle()
    assert bed.status.phase == "Degraded"
    assert bed.condition("Ready")[:2] == ("False", reason)
    assert bed.driver.performed == []

    bed.put_secret("key", "good")
    await bed.advance(61)
    assert bed.status.phase == "Ready"


async def test_a_missing_secret_stops_a_first_rollout(bed: Bed) -> None:
    bed.declare(**KEYED)
    await bed.settle()
    assert bed.condition("Ready")[:2] == ("False", "APIKeyInvalid")


@pytest.mark.parametrize(
    ("label", "reason"), [(None, "SecretNotAllowed"), ("decisionmodel.io/download-token", "DownloadTokenInvalid")]
)
async def test_a_download_token_needs_its_own_label_and_key(bed: Bed, label: str | None, reason: str) -> None:
    bed.put_secret("token", "t", label=label, key="other")
    bed.declare(**TOKEN)
    await bed.settle()
    assert bed.condition("Ready")[:2] == ("False", reason)


async def test_a_rotated_key_rolls_the_pods_exactly_once(bed: Bed) -> None:
    bed.put_secret("key", "first")
    revision = await bed.rolled_out(**KEYED)
    first = checksums(bed)
    assert first[0] == first[1] is not None
    generation = deployment(bed)["metadata"]["generation"]
    (before,) = bed.pods

    bed.put_secret("key", "second")
    await bed.advance(61)
    await bed.advance(11)
    await bed.advance(61)

    assert checksums(bed)[0] == checksums(bed)[1] != first[0]
    assert deployment(bed)["metadata"]["generation"] == generation + 1
    (after,) = bed.pods
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert bed.runtime.requests[-1].headers["authorization"] == "Bearer second"
    assert bed.status.phase == "Ready"
    assert bed.status.stable_revision is not None
    assert bed.status.stable_revision.hash == revision


async def test_a_key_that_cannot_be_read_changes_no_workload(bed: Bed) -> None:
    bed.put_secret("key", "first")
    await bed.rolled_out(**KEYED)
    before, operations = deployment(bed), len(bed.driver.performed)

    bed.remove_secret("key")
    for _ in range(5):
        await bed.advance(61)
    assert bed.gate() == ("True", "ModelReady"), "what serves goes on serving"
    assert bed.condition("Degraded")[:2] == ("True", "APIKeyInvalid")
    assert bed.condition("Ready")[:2] == ("True", "Ready")
    assert deployment(bed) == before
    assert len(bed.driver.performed) == operations

    bed.put_secret("key", "first")
    await bed.advance(61)
    assert bed.condition("Degraded") == ("", "", "")


async def test_secrets_are_read_by_name_only(bed: Bed) -> None:
    bed.put_secret("key", "first")
    await bed.rolled_out(**KEYED)
    paths = {request.path for request in bed.server.requests if "secrets" in request.path}
    assert paths == {"/api/v1/namespaces/default/secrets/key"}


@pytest.mark.parametrize("name", ["team/key", "..", "50%"])
@pytest.mark.parametrize(
    ("field", "reference", "reason"),
    [("auth", "apiKeySecretRef", "APIKeyInvalid"), ("cache", "downloadTokenSecretRef", "DownloadTokenInvalid")],
)
async def test_a_secret_of_an_impossible_name_is_one_that_is_missing(
    bed: Bed, field: str, reference: str, reason: str, name: str
) -> None:
    stable = await bed.rolled_out()
    spec: dict[str, Any] = {field: {reference: {"name": name, "key": "key"}}}
    bed.declare(**spec)
    await bed.settle()
    assert bed.condition("Degraded")[:2] == ("True", reason)
    assert bed.status.observed_generation == bed.model.metadata.generation
    assert (bed.status.phase, bed.selected) == ("Ready", stable)
    bed.remove(PODS, bed.pods[0]["metadata"]["name"])
    await bed.settle()
    await bed.advance(5)
    assert bed.gate() == ("True", "ModelReady"), "what runs without a key is proved without one"


async def test_a_parked_candidate_keeps_everything_while_its_key_cannot_be_read(bed: Bed) -> None:
    bed.put_secret("key", "k")
    await bed.rolled_out(**KEYED)
    bed.declare(model="laya:en-better", rollout={"promotion": "Manual"}, **KEYED)
    await bed.settle()
    assert bed.status.phase == "AwaitingPromotion"
    before = bed.children
    bed.remove_secret("key")
    await bed.advance(61)
    assert bed.condition("Degraded")[:2] == ("True", "APIKeyInvalid")
    assert bed.children == before
    bed.put_secret("key", "k")
    await bed.advance(61)
    assert bed.status.phase == "AwaitingPromotion"
    assert bed.events.count("PrefetchStarted") == 2

"""Which revision a spec asks for, and what is refused: where digests come from, recognition, images, preflight."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api.conditions import Reason
from api.decisionmodel import DecisionModel
from api.keys import RETRY_ANNOTATION
from api.spec import DecisionModelSpec
from api.status import DecisionModelStatus, FailedRevisionStatus, RevisionStatus
from components.program import ProviderSettings
from reconciler.controller.revisions import (
    ChosenImage,
    choose_image,
    known_digest,
    known_resolution,
    preflight,
    recognise,
    runtime_update,
    wanted_revision,
)
from reconciler.controller.settings import ControllerSettings
from reconciler.engine.images import RuntimeVersionPolicy
from reconciler.engine.registry_policy import RegistryPolicy
from reconciler.rollout import Refusal

SETTINGS = ControllerSettings(registries=RegistryPolicy(), provider=ProviderSettings(cluster_identifier="tests"))


def spec(**fields: Any) -> DecisionModelSpec:
    return DecisionModelSpec.model_validate({"model": "laya:en", **fields})


def wanted(digest: str = "a", settings: ControllerSettings = SETTINGS, **fields: Any) -> RevisionStatus:
    image = choose_image(spec(**fields), None, settings)
    assert isinstance(image, ChosenImage)
    return wanted_revision(spec(**fields), digest * 64, image, settings)


def rejected(revision: RevisionStatus) -> FailedRevisionStatus:
    return FailedRevisionStatus(**dict(revision), reason="PrefetchFailed")


def test_a_digest_comes_from_the_spec_then_stable_then_candidate() -> None:
    status = DecisionModelStatus(stable_revision=wanted("b"), candidate_revision=wanted("c"))
    assert known_digest(spec(digest="a" * 64), status) == "a" * 64
    assert known_digest(spec(), status) == "b" * 64
    status = status.model_copy(update={"stable_revision": None})
    assert known_digest(spec(), status) == "c" * 64
    assert known_digest(spec(), DecisionModelStatus()) is None


def rejected_model(failed: FailedRevisionStatus, annotations: dict[str, str], **fields: Any) -> DecisionModel:
    """A DecisionModel whose revision was rejected, and that was edited and annotated since."""
    metadata = {"name": "router", "namespace": "default", "annotations": annotations}
    model = DecisionModel.model_validate({"metadata": metadata, "spec": {"model": "laya:en", **fields}})
    return model.model_copy(update={"status": DecisionModelStatus(failed_revision=failed, last_retry_token="1")})


@pytest.mark.parametrize(
    ("annotations", "selected", "fields", "known"),
    [
        pytest.param({}, None, {}, True, id="nothing changed"),
        pytest.param({RETRY_ANNOTATION: "1"}, None, {}, True, id="retried before"),
        pytest.param({RETRY_ANNOTATION: "2"}, None, {}, False, id="retry"),
        pytest.param({RETRY_ANNOTATION: "2"}, "failed", {}, True, id="retry before its traffic has moved"),
        pytest.param({}, None, {"device": "cuda"}, False, id="another device"),
        pytest.param({}, None, {"model": "laya:multilingual"}, False, id="another model"),
        pytest.param({}, None, {"replicas": 2}, True, id="an edit that makes no revision"),
    ],
)
def test_a_rejected_revision_is_known_until_the_spec_or_the_retry_annotation_asks_anew(
    annotations: dict[str, str], selected: str | None, fields: dict[str, Any], known: bool
) -> None:
    failed = rejected(wanted("d"))
    model = rejected_model(failed, annotations, **fields)
    image = choose_image(model.spec, None, SETTINGS)
    assert isinstance(image, ChosenImage)
    found = known_resolution(model, failed.hash if selected else None, image, SETTINGS)
    assert (found.revision.hash if found else None) == (failed.hash if known else None)


@pytest.mark.parametrize("spelling", ["laya:multilingual", "LAYA:en", "library/laya:en"])
def test_another_spelling_asks_the_registry(spelling: str) -> None:
    assert known_digest(spec(model=spelling), DecisionModelStatus(stable_revision=wanted())) is None


@pytest.mark.parametrize("field", ["stable_revision", "candidate_revision", "failed_revision"])
def test_a_recorded_revision_is_recognised_whoever_named_it(field: str) -> None:
    recorded = wanted().model_copy(update={"hash": "0123456789"})
    record = rejected(recorded) if field == "failed_revision" else recorded
    assert recognise(wanted(), DecisionModelStatus.model_validate({field: record})).hash == "0123456789"
    assert recognise(wanted("b"), DecisionModelStatus.model_validate({field: record})) == wanted("b")


@pytest.mark.parametrize(
    "fields",
    [
        {"replicas": 5},
        {"cache": {"size": "1Gi"}},
        {"auth": {"apiKeySecretRef": {"name": "key", "key": "api-key"}}},
        {"rollout": {"stabilization": "0s"}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_is_no_part_of_a_revision_changes_none(fields: dict[str, Any]) -> None:
    assert wanted(**fields).hash == wanted().hash


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "LAYA:en"},
        {"device": "cuda"},
        {"runtimeVersion": "0.11.0"},
        {"resources": {"limits": {"cpu": "2"}}},
        {"scheduling": {"nodeSelector": {"disk": "ssd"}}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_is_part_of_a_revision_makes_another_one(fields: dict[str, Any]) -> None:
    assert wanted(**fields).hash != wanted().hash


@pytest.mark.parametrize(
    ("fields", "settings", "reason"),
    [
        ({}, SETTINGS, None),
        ({"model": "a/b/c/d:e"}, SETTINGS, Reason.INVALID_MODEL_NAME),
        ({"model": "other.example/library/laya:en"}, SETTINGS, Reason.REGISTRY_NOT_ALLOWED),
        ({"model": "http://ollaya.dev/library/laya:en"}, SETTINGS, Reason.REGISTRY_NOT_ALLOWED),
        ({"image": "own.example/runtime:1"}, SETTINGS, Reason.IMAGE_OVERRIDE_NOT_ALLOWED),
        ({"image": ""}, SETTINGS, None),
        ({"image": "own.example/runtime:1"}, replace(SETTINGS, allow_image_override=True), None),
    ],
)
def test_preflight(fields: dict[str, Any], settings: ControllerSettings, reason: Reason | None) -> None:
    refusal = preflight(spec(**fields), settings)
    assert (None if refusal is None else refusal.reason) == reason


@pytest.mark.parametrize(
    ("version", "reason"), [("latest", Reason.INVALID_RUNTIME_VERSION), ("0.7.2", Reason.RUNTIME_VERSION_UNSUPPORTED)]
)
def test_a_version_that_cannot_be_run_is_refused(version: str, reason: Reason) -> None:
    chosen = choose_image(spec().model_copy(update={"runtime_version": version}), None, SETTINGS)
    assert isinstance(chosen, Refusal)
    assert chosen.reason == reason


def test_an_image_without_a_digest_needs_permission() -> None:
    chosen = choose_image(spec(runtimeVersion="0.9.9"), None, SETTINGS)
    assert isinstance(chosen, ChosenImage)
    assert chosen.refusal is not None
    assert chosen.refusal.reason == Reason.UNPINNED_RUNTIME_IMAGE
    permitted = choose_image(spec(runtimeVersion="0.9.9"), None, replace(SETTINGS, allow_unpinned_images=True))
    assert isinstance(permitted, ChosenImage)
    assert permitted.refusal is None
    assert "@" not in permitted.reference


def test_an_unset_version_stays_what_serves_unless_the_operator_is_to_be_followed() -> None:
    stable = wanted(runtimeVersion="0.11.0")
    pinned = choose_image(spec(), stable, SETTINGS)
    followed = choose_image(
        spec(), stable, replace(SETTINGS, runtime_version_policy=RuntimeVersionPolicy.FOLLOW_OPERATOR)
    )
    assert isinstance(pinned, ChosenImage)
    assert isinstance(followed, ChosenImage)
    assert (pinned.version, followed.version) == ("0.11.0", "0.12.0")


def test_an_update_is_offered_to_older_runtimes_only() -> None:
    update = runtime_update(wanted(runtimeVersion="0.11.0"), SETTINGS)
    assert update is not None
    assert (update.running, update.available) == ("0.11.0", "0.12.0")
    assert runtime_update(wanted(), SETTINGS) is None
    assert runtime_update(None, SETTINGS) is None
    own = replace(SETTINGS, allow_image_override=True)
    assert runtime_update(wanted(image="own.example/runtime:1", settings=own), SETTINGS) is None


def test_an_empty_image_is_none_as_templates_write_it() -> None:
    assert wanted(image="").hash == wanted().hash

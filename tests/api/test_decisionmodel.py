"""Objects are read as the API server sends them, and effective values follow the specification."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from api.decisionmodel import DecisionModel
from api.rollout import Promotion, Rollout, Strategy
from api.spec import Cache
from api.status import DecisionModelStatus, FailedRevisionStatus, PreviousRevision, ReplicaStatus, RevisionStatus

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EVALUATION = {"datasetRef": {"configMapRef": {"name": "golden", "key": "cases"}}, "minAccuracy": "0.9"}


def _object(**fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "decisionmodel.io/v1alpha1",
        "kind": "DecisionModel",
        "metadata": {"name": "support-router", "namespace": "models"},
        "spec": {"model": "laya:en"},
        **fields,
    }


def test_an_object_of_the_server_is_read_whatever_else_it_says() -> None:
    model = DecisionModel.model_validate(
        _object(
            metadata={
                "name": "support-router",
                "namespace": "models",
                "uid": "0d5f",
                "generation": 7,
                "resourceVersion": "41",
                "creationTimestamp": "2026-01-01T12:00:00Z",
                "annotations": {"decisionmodel.io/retry": "1"},
                "managedFields": [{"manager": "kubectl"}],
                "selfLink": None,
            },
            status={"phase": "Ready", "later": {"release": True}, "stableRevision": {"hash": "ab", "colour": "blue"}},
        )
    )

    assert model.namespaced_name == "models/support-router"
    assert model.metadata.uid == "0d5f"
    assert model.metadata.generation == 7
    assert model.metadata.resource_version == "41"
    assert model.metadata.creation_timestamp == NOON
    assert model.metadata.deletion_timestamp is None
    assert model.metadata.annotations == {"decisionmodel.io/retry": "1"}
    assert model.status.stable_revision == RevisionStatus(hash="ab")


def test_without_status_everything_is_unknown() -> None:
    model = DecisionModel.model_validate(_object(spec={"model": "laya:en", "rollout": None}))

    assert model.status == DecisionModelStatus()
    assert model.status.dump() == {}
    assert model.spec.rollout == Rollout()


@pytest.mark.parametrize("change", [{"kind": "Model"}, {"apiVersion": "decisionmodel.io/v2"}, {"spec": None}])
def test_what_is_no_decision_model_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DecisionModel.model_validate(_object(**change))


def test_values_are_frozen() -> None:
    model = DecisionModel.model_validate(_object())

    with pytest.raises(ValidationError, match="frozen"):
        model.spec.replicas = 2  # type: ignore[misc]  # what the test is about


def test_a_status_is_written_as_the_api_spells_it_and_read_back() -> None:
    revision = RevisionStatus(hash="aa", model="laya:en", image_pinned=False)
    status = DecisionModelStatus(
        phase_transition_time=NOON,
        stable_revision=revision,
        failed_revision=FailedRevisionStatus(hash="bb", reason="StartTimeout", failed_at=NOON),
        previous_revision=PreviousRevision(hash="cc", promoted_at=NOON, revision=RevisionStatus(hash="cc")),
        replicas=ReplicaStatus(desired=1, model_ready=0),
    )

    assert status.dump() == {
        "failedRevision": {"failedAt": "2026-01-01T12:00:00Z", "hash": "bb", "reason": "StartTimeout"},
        "phaseTransitionTime": "2026-01-01T12:00:00Z",
        "previousRevision": {"hash": "cc", "promotedAt": "2026-01-01T12:00:00Z", "revision": {"hash": "cc"}},
        "replicas": {"desired": 1, "modelReady": 0},
        "stableRevision": {"hash": "aa", "imagePinned": False, "model": "laya:en"},
    }
    assert DecisionModelStatus.model_validate(status.dump()) == status


def test_equal_values_are_written_equally_whatever_the_order_of_their_maps() -> None:
    def dumped(requests: dict[str, str]) -> str:
        return repr(
            DecisionModel.model_validate(_object(spec={"model": "a:b", "resources": {"requests": requests}})).dump()
        )

    assert dumped({"cpu": "1", "memory": "1Gi"}) == dumped({"memory": "1Gi", "cpu": "1"})


def test_a_selector_of_everything_stays_apart_from_none() -> None:
    term = {"topologyKey": "zone", "namespaceSelector": {}, "labelSelector": {"matchLabels": {"a": "b"}}}
    scheduling = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    model = DecisionModel.model_validate(_object(spec={"model": "a:b", "scheduling": scheduling}))

    assert model.spec.scheduling.dump() == scheduling


@pytest.mark.parametrize(
    ("rollout", "promotion"),
    [
        ({}, Promotion.AUTOMATIC),
        ({"promotion": "Automatic", "evaluation": EVALUATION}, Promotion.AUTOMATIC),
        ({"evaluation": EVALUATION}, Promotion.EVALUATION_GATED),
        ({"promotion": "EvaluationGated", "evaluation": EVALUATION}, Promotion.EVALUATION_GATED),
        ({"promotion": "Manual"}, Promotion.MANUAL),
        ({"manualPromotion": True}, Promotion.MANUAL),
        ({"manualPromotion": True, "evaluation": EVALUATION}, Promotion.MANUAL),
    ],
)
def test_effective_promotion(rollout: dict[str, Any], promotion: Promotion) -> None:
    assert Rollout.model_validate(rollout).effective_promotion is promotion


def test_effective_values_of_an_empty_rollout() -> None:
    rollout = Rollout()

    assert rollout.effective_strategy is Strategy.BLUE_GREEN
    assert rollout.stabilization_window == timedelta(minutes=5)
    assert rollout.timeouts.caching_timeout == timedelta(minutes=30)
    assert rollout.timeouts.starting_timeout == timedelta(minutes=10)
    assert rollout.timeouts.evaluating_timeout == timedelta(minutes=10)


def test_effective_values_that_are_set() -> None:
    timeouts = {"caching": "1h", "starting": "90s", "evaluating": "2m"}
    rollout = Rollout.model_validate({"stabilization": "0s", "strategy": "Recreate", "timeouts": timeouts})

    assert rollout.effective_strategy is Strategy.RECREATE
    assert rollout.stabilization_window == timedelta(0)
    assert rollout.timeouts.caching_timeout == timedelta(hours=1)
    assert rollout.timeouts.starting_timeout == timedelta(seconds=90)
    assert rollout.timeouts.evaluating_timeout == timedelta(minutes=2)


def test_effective_cache() -> None:
    assert Cache().size == "10Gi"
    assert Cache().effective_access_modes == ("ReadWriteOnce",)
    assert Cache(access_modes=("ReadWriteMany",)).effective_access_modes == ("ReadWriteMany",)


def test_effective_score_tolerance() -> None:
    evaluation = Rollout.model_validate({"evaluation": EVALUATION}).evaluation

    assert evaluation is not None
    assert evaluation.effective_score_tolerance == "0.5"

"""Whom a candidate is compared with: the serving revision, unless that has been away or silent for long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.conditions import Condition, ConditionType, Reason
from api.decisionmodel import DecisionModel
from api.rollout import Rollout
from api.status import DecisionModelStatus, ReplicaStatus, RevisionStatus
from reconciler.controller.evaluation_subject import baseline_of, patience
from reconciler.evaluation.policy import Policy

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STABLE = RevisionStatus(hash="a" * 16)
RELATIVE = {
    "datasetRef": {"configMapRef": {"name": "golden", "key": "cases"}},
    "minAccuracy": "0.8",
    "maxAccuracyDrop": "0.05",
}


def model(seconds: int, reason: Reason = Reason.NO_MODEL_READY_PODS, ready: int = 0, **rollout: Any) -> DecisionModel:
    """A DecisionModel that has not been Ready for so many seconds."""
    condition = Condition(
        type=ConditionType.READY,
        status="False",
        reason=reason,
        message="",
        last_transition_time=NOW - timedelta(seconds=seconds),
    )
    status = DecisionModelStatus(
        stable_revision=STABLE,
        candidate_revision=RevisionStatus(hash="b" * 16),
        conditions=(condition,),
        replicas=ReplicaStatus(desired=1, model_ready=ready),
    )
    metadata = {"name": "router", "namespace": "default", "uid": "1"}
    spec = {"model": "laya:en", "rollout": {"evaluation": RELATIVE, **rollout}}
    return DecisionModel.model_validate({"metadata": metadata, "spec": spec}).model_copy(update={"status": status})


def compared(of: DecisionModel, silent: int = 0) -> bool:
    evaluation = of.spec.rollout.evaluation
    assert evaluation is not None
    baseline, why = baseline_of(of, Policy.of(evaluation), evaluation, NOW, timedelta(seconds=silent))
    assert (baseline is None) is bool(why)
    return baseline is not None


@pytest.mark.parametrize(
    ("rollout", "seconds"),
    [
        ({}, 300),
        ({"timeouts": {"evaluating": "1h"}}, 600),
        ({"timeouts": {"evaluating": "1h", "starting": "2m"}}, 120),
        ({"timeouts": {"evaluating": "1m"}}, 30),
        ({"promotion": "Manual"}, 30),
    ],
)
def test_how_long_a_serving_revision_may_be_away(rollout: dict[str, Any], seconds: int) -> None:
    assert patience(Rollout.model_validate(rollout)) == timedelta(seconds=seconds)
    assert compared(model(seconds - 1, **rollout))
    assert not compared(model(seconds, **rollout))
    assert compared(model(0, **rollout), silent=seconds - 1)
    assert not compared(model(0, **rollout), silent=seconds)


@pytest.mark.parametrize("reason", [Reason.RESOURCE_CONFLICT, Reason.STARTING])
def test_what_is_not_ready_for_another_cause_is_compared_with(reason: Reason) -> None:
    assert compared(model(86400, reason))


def test_one_pod_is_enough_to_be_compared_with() -> None:
    assert compared(model(86400, ready=1))


def test_a_pod_that_crashes_is_as_good_as_none() -> None:
    assert not compared(model(86400, Reason("ImagePullBackOff")))

"""The metrics of a DecisionModel: names and labels that dashboards and alerts rely on (spec section 10.1)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from api.conditions import Phase
from api.decisionmodel import DecisionModel
from api.status import DecisionModelStatus, EvaluationStatus, ReplicaStatus, RevisionStatus
from reconciler.controller.metrics import ControllerMetrics
from reconciler.kernel.resources import ObjectKey
from reconciler.rollout import RolloutResult

START = datetime(2026, 1, 1, tzinfo=UTC)
KEY = ObjectKey("default", "router")
MODEL = {"namespace": "default", "name": "router"}


def model(phase: Phase | None, since: datetime | None = START) -> DecisionModel:
    status = DecisionModelStatus(phase=phase, phase_transition_time=since if phase else None)
    metadata = {"name": KEY.name, "namespace": KEY.namespace, "uid": "u"}
    return DecisionModel.model_validate({"metadata": metadata, "spec": {"model": "laya:en"}}).model_copy(
        update={"status": status}
    )


def revision(model_name: str, digest: str) -> RevisionStatus:
    return RevisionStatus(
        hash="0" * 16, engine="ollaya", model=model_name, digest=digest * 64, device="cpu", image="i", placement="none"
    )


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> ControllerMetrics:
    return ControllerMetrics(registry)


def test_exactly_one_phase_is_current(registry: CollectorRegistry, metrics: ControllerMetrics) -> None:
    for current in (Phase.CACHING, Phase.READY):
        metrics.describe(KEY, DecisionModelStatus(phase=current))
        values = {
            phase: registry.get_sample_value("decisionmodel_phase", {**MODEL, "phase": str(phase)}) for phase in Phase
        }
        assert values == {phase: float(phase is current) for phase in Phase}
        assert len(values) == 11


def test_a_phase_is_measured_when_it_is_left(registry: CollectorRegistry, metrics: ControllerMetrics) -> None:
    later = DecisionModelStatus(phase=Phase.STARTING, phase_transition_time=START + timedelta(seconds=20))
    metrics.persisted(model(Phase.CACHING), later, ())
    labels = {**MODEL, "phase": "Caching"}
    assert registry.get_sample_value("decisionmodel_phase_duration_seconds_sum", labels) == 20.0
    bounds = [5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600]
    counts = [
        registry.get_sample_value("decisionmodel_phase_duration_seconds_bucket", {**labels, "le": f"{bound:.1f}"})
        for bound in bounds
    ]
    assert counts == [0.0, 0.0, *[1.0] * 8]

    metrics.persisted(model(Phase.CACHING), model(Phase.CACHING).status, ())
    assert registry.get_sample_value("decisionmodel_phase_duration_seconds_count", labels) == 1.0


def test_replicas_rollouts_probes_and_revisions_are_described(
    registry: CollectorRegistry, metrics: ControllerMetrics
) -> None:
    status = DecisionModelStatus(
        phase=Phase.READY,
        replicas=ReplicaStatus(desired=3, model_ready=2),
        stable_revision=revision("laya:en", "a"),
        candidate_revision=revision("laya:en-better", "b"),
    )
    metrics.persisted(model(None), status, (RolloutResult.PROMOTED,))
    metrics.probed(KEY, "ready")

    value = registry.get_sample_value
    assert value("decisionmodel_desired_replicas", MODEL) == 3.0
    assert value("decisionmodel_model_ready_replicas", MODEL) == 2.0
    assert value("decisionmodel_rollouts_total", {**MODEL, "result": "promoted"}) == 1.0
    assert value("decisionmodel_probe_results_total", {**MODEL, "result": "ready"}) == 1.0
    stable = {**MODEL, "role": "stable", "model": "laya:en", "digest": "a" * 64}
    candidate = {**MODEL, "role": "candidate", "model": "laya:en-better", "digest": "b" * 64}
    assert (value("decisionmodel_revision_info", stable), value("decisionmodel_revision_info", candidate)) == (1.0, 1.0)

    metrics.describe(KEY, status.model_copy(update={"candidate_revision": None}))
    assert value("decisionmodel_revision_info", candidate) is None
    assert value("decisionmodel_revision_info", stable) == 1.0


def test_nothing_stays_of_a_model_that_is_gone_and_all_of_its_neighbour(
    registry: CollectorRegistry, metrics: ControllerMetrics
) -> None:
    status = DecisionModelStatus(
        phase=Phase.READY, replicas=ReplicaStatus(desired=1, model_ready=1), stable_revision=revision("laya:en", "a")
    )
    metrics.persisted(model(Phase.STARTING), status, (RolloutResult.PROMOTED,))
    metrics.probed(KEY, "ready")
    metrics.describe(ObjectKey("default", "other"), status)
    metrics.forget(KEY)

    names = {
        sample.labels["name"] for family in registry.collect() for sample in family.samples if "name" in sample.labels
    }
    assert names == {"other"}
    metrics.forget(KEY)


def test_no_label_carries_a_revisions_hash(registry: CollectorRegistry, metrics: ControllerMetrics) -> None:
    metrics.describe(KEY, DecisionModelStatus(phase=Phase.READY, stable_revision=revision("laya:en", "a")))
    assert "0" * 16 not in {
        value for family in registry.collect() for sample in family.samples for value in sample.labels.values()
    }


def test_series_begin_with_zero_so_that_the_first_increase_is_seen(
    registry: CollectorRegistry, metrics: ControllerMetrics
) -> None:
    metrics.describe(KEY, DecisionModelStatus(phase=Phase.READY))
    for name, result in (("rollouts", "rolled_back"), ("rollouts", "failed"), ("probe_results", "digest_mismatch")):
        assert registry.get_sample_value(f"decisionmodel_{name}_total", {**MODEL, "result": result}) == 0.0


def test_a_figure_that_the_last_evaluation_lacks_has_no_series(
    registry: CollectorRegistry, metrics: ControllerMetrics
) -> None:
    first = EvaluationStatus(revision="1" * 16, accuracy="0.9000", ece="0.3000", macro_f1="0.8000")
    for evaluation in (first, EvaluationStatus(revision="2" * 16, accuracy="0.9500")):
        metrics.describe(KEY, DecisionModelStatus(phase=Phase.READY, evaluation=evaluation))
    assert registry.get_sample_value("decisionmodel_evaluation_accuracy", MODEL) == 0.95
    assert registry.get_sample_value("decisionmodel_evaluation_ece", MODEL) is None
    assert registry.get_sample_value("decisionmodel_evaluation_macro_f1", MODEL) is None

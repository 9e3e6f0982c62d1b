"""Candidates of known quality through the golden-data-set gate, on the real cluster."""

from __future__ import annotations

import base64
import json
from functools import partial
from random import Random

import pytest

from tests.cluster.golden import golden
from tests.cluster.killing import Killer, Victim
from tests.cluster.observing import Bench, no_failed_request, reason
from tests.cluster.side_by_side import SideBySide
from tools.kubectl import wait_until
from tools.observer import Object, condition, phase

pytestmark = pytest.mark.cluster

side_by_side = SideBySide()

GATE = {
    "datasetRef": {"configMapRef": {"name": "golden", "key": "cases"}},
    "minAccuracy": "0.85",
    "maxAccuracyDrop": "0.03",
    "maxECE": "0.045",
}


def put_dataset(bench: Bench, text: str, name: str = "golden") -> None:
    metadata = {"name": name, "namespace": bench.namespace}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"cases": text}}
    # Applied by the client it would have to fit into an annotation as well.
    bench.kubectl.run("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))


def put_secret(bench: Bench, text: str, labels: dict[str, str]) -> None:
    metadata = {"name": "golden", "namespace": bench.namespace, "labels": labels}
    data = {"cases": base64.b64encode(text.encode()).decode()}
    bench.kubectl.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


@side_by_side
def test_each_candidate_ends_as_it_deserves(bench: Bench) -> None:
    put_dataset(bench, golden(300))
    candidates = {
        "better": ("laya:en-better", "Ready", ""),
        "equal": ("laya:en-equal", "Ready", ""),
        "worse": ("laya:en-worse", "RolledBack", "accuracy"),
        "boastful": ("laya:en-overconfident", "RolledBack", "ECE"),
    }
    for name in candidates:
        bench.declare(name, rollout={"evaluation": GATE})
    stables = {name: bench.wait_ready(name, 240)["status"]["stableRevision"]["hash"] for name in candidates}
    with no_failed_request(bench, "worse"):
        for name, (tag, _, _) in candidates.items():
            bench.edit(name, model=tag)
        for name, (tag, ending, why) in candidates.items():
            model = bench.wait(name, ending, partial(is_at, ending, tag), 240)
            assert model["status"]["evaluation"]["baselineAccuracy"] > "0.9"
            assert why in condition(model, "Degraded").get("message", "")
            if ending == "RolledBack":
                assert bench.selected(name) == stables[name]
                assert reason(model, "Degraded") == "EvaluationFailed"
            assert bench.told(name, "EvaluationStarted") == 2


def is_held(why: str, model: Object) -> bool:
    return reason(model, "Evaluated") == why


def is_at(ending: str, tag: str, model: Object) -> bool:
    """Whether a rollout of `tag` has ended, one way or the other."""
    status = model["status"]
    record = status.get("stableRevision" if ending == "Ready" else "failedRevision") or {}
    return bool(phase(model) == ending and record.get("model") == tag)


@side_by_side
def test_a_data_set_that_is_too_small_ends_undecided_and_says_what_would_decide(bench: Bench) -> None:
    statistics = {"method": "paired", "nonInferiorityMargin": "0.02", "onUndecided": "Reject"}
    evaluation = {**GATE, "maxECE": None, "maxAccuracyDrop": None, "statistics": statistics}
    put_dataset(bench, golden(60))
    bench.declare("router", rollout={"evaluation": evaluation})
    stable = bench.wait_ready("router", 240)["status"]["stableRevision"]["hash"]
    bench.edit("router", model="laya:en-equal")
    rejected = bench.wait_rejected("router", 240)
    assert reason(rejected, "Degraded") == "EvaluationUndecided"
    assert "more items" in condition(rejected, "Degraded")["message"]
    assert bench.selected("router") == stable
    revision = rejected["status"]["failedRevision"]["hash"]
    evidence = bench.kubectl.get("configmap", f"router-evidence-{revision}", bench.namespace)
    assert evidence
    assert evidence["binaryData"]["evidence"]


@side_by_side
def test_data_sets_that_cannot_be_used_end_as_specified(bench: Bench) -> None:
    def gate(reference: dict[str, object]) -> dict[str, object]:
        return {"evaluation": {"datasetRef": reference, "minAccuracy": "0.5"}}

    refused_by_runtime = golden(3).replace('"choice"', '"riddle"')
    put_dataset(bench, golden(2) + '\n{"state": 1', "malformed")
    put_dataset(bench, refused_by_runtime, "refused")
    put_secret(bench, golden(30), {})
    bench.declare("missing", rollout=gate({"configMapRef": {"name": "later", "key": "cases"}}))
    bench.declare("unlabelled", rollout=gate({"secretRef": {"name": "golden", "key": "cases"}}))
    bench.declare("malformed", rollout=gate({"configMapRef": {"name": "malformed", "key": "cases"}}))
    bench.declare("refused", rollout=gate({"configMapRef": {"name": "refused", "key": "cases"}}))
    malformed = bench.wait("malformed", "rejected", lambda dm: phase(dm) == "Failed", 240)
    assert reason(malformed, "Degraded") == "DatasetInvalid"
    assert "line 3" in condition(malformed, "Degraded")["message"]
    held = {"missing": "DatasetNotFound", "unlabelled": "SecretNotAllowed", "refused": "DatasetInvalid"}
    for name, why in held.items():
        model = bench.wait(name, "held", partial(is_held, why), 240)
        assert phase(model) == "Evaluating"
        assert not bench.selected(name)
    put_dataset(bench, golden(30), "later")
    put_secret(bench, golden(30), {"decisionmodel.io/eval-dataset": "true"})
    for name in ("missing", "unlabelled"):
        bench.wait_ready(name, 240)
        assert bench.told(name, "EvaluationOnHold") == 1


def test_a_run_that_dies_with_its_process_is_repeated_and_told_once(bench: Bench) -> None:
    put_dataset(bench, golden(1500))
    killer = Killer(bench.environment, Random(0))  # noqa: S311  # moments, no secrets
    killer.begin_unrestarted()
    bench.declare("router", rollout={"evaluation": {**GATE, "maxCases": 1500}})
    bench.wait("router", "being scored", lambda dm: reason(dm, "Evaluated") == "EvaluationRunning", 120)
    killer.kill(Victim.RECONCILER)
    model = bench.wait_ready("router", 240)
    assert model["status"]["evaluation"]["cases"] == 1500
    assert bench.told("router", "EvaluationStarted") == 1
    wait_until("the promotion to be told", lambda: bench.told("router", "Promoted") == 1, 30)
    assert "please" not in bench.operator_log(5000) + json.dumps(model)

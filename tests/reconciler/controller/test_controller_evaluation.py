"""Golden data sets through the whole reconciler: what is asked of whom, what is written, and what never leaves."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import Sequence
from typing import Any

import pytest
from prometheus_client import generate_latest

from api.keys import GROUP, PROMOTE_ANNOTATION
from reconciler.controller import evaluations
from reconciler.controller.watched import CONFIG_MAPS
from reconciler.evaluation.apart import Proof
from reconciler.evaluation.judgement import judge_run
from reconciler.evaluation.parameters import Inputs, Parameters
from reconciler.evaluation.table import Item
from tests.reconciler.controller.bed import KEY, Bed
from tests.reconciler.controller.runtimes import FakeRuntime

pytestmark = pytest.mark.anyio

CANARY = "canary-state-4711"
QUESTION = {"type": "choice", "criteria": {"billing": "money", "tech": "machines"}}
GATE: dict[str, Any] = {"datasetRef": {"configMapRef": {"name": "golden", "key": "cases"}}, "minAccuracy": "0.8"}
STATISTICS = {"method": "paired", "nonInferiorityMargin": "0.05", "minItemsPerLabel": 10}


def cases(count: int) -> str:
    """A data set whose right answer is billing on even lines and tech on odd ones."""
    lines = (
        {"state": f"{CANARY} {number}", "questions": {"q": QUESTION}, "expected": {"q": LABELS[number % 2]}}
        for number in range(count)
    )
    return "\n".join(map(json.dumps, lines))


LABELS = ("billing", "tech")


def put_dataset(bed: Bed, text: str) -> None:
    metadata = {"name": "golden", "namespace": KEY.namespace}
    bed.server.put("v1", "configmaps", {"kind": "ConfigMap", "metadata": metadata, "data": {"cases": text}})


def put_secret_dataset(bed: Bed, label: str | None) -> None:
    labels = {} if label is None else {f"{GROUP}/{label}": "true"}
    metadata = {"name": "golden", "namespace": KEY.namespace, "labels": labels}
    data = {"cases": base64.b64encode(cases(10).encode()).decode()}
    bed.server.put("v1", "secrets", {"kind": "Secret", "metadata": metadata, "data": data})


def answering(bed: Bed, wrong: dict[str, int]) -> None:
    """Let runtimes answer, wrongly on every n-th case where `wrong` has an n for their model."""

    def adjust(runtime: FakeRuntime) -> None:
        def decide(body: Any) -> tuple[int, dict[str, Any]]:
            number = int(body["state"].split()[-1])
            every = wrong.get(str(runtime.loaded), 0)
            right = not every or number % every
            label = LABELS[number % 2 if right else 1 - number % 2]
            shares = {each: 0.9 if each == label else 0.1 for each in LABELS}
            return 200, {"answers": {"q": {"type": "choice", "choice": label, "probabilities": shares}}}

        runtime.decide = decide

    bed.kubelet.adjust = adjust


def asked(bed: Bed) -> int:
    """How many cases all runtimes were asked."""
    return sum(runtime.calls.count("/v1/systemone") for runtime in bed.runtimes.by_address.values())


async def test_a_good_candidate_is_scored_once_and_promoted(bed: Bed) -> None:
    put_dataset(bed, cases(20))
    answering(bed, {})
    bed.declare(rollout={"evaluation": GATE})
    await bed.settle()
    assert bed.status.phase == "Ready"
    evaluation = bed.status.evaluation
    assert evaluation is not None
    assert (evaluation.accuracy, evaluation.cases, evaluation.result) == ("1.0000", 20, "Passed")
    assert asked(bed) == 20
    assert bed.events.count("EvaluationStarted") == 1
    assert bed.condition("Evaluated")[:2] == ("True", "EvaluationPassed")
    assert bed.sample("decisionmodel_evaluation_accuracy") == 1.0
    before = len(bed.server.writes)
    await bed.next_pass()
    assert len(bed.server.writes) == before


async def test_a_poor_candidate_is_rejected_and_what_serves_is_not_asked_without_a_relative_gate(bed: Bed) -> None:
    put_dataset(bed, cases(20))
    answering(bed, {"laya:multilingual": 2})
    stable = await bed.rolled_out(rollout={"evaluation": GATE})
    bed.declare(model="laya:multilingual", rollout={"evaluation": GATE})
    await bed.settle()
    assert bed.status.phase == "RolledBack"
    assert bed.selected == stable
    assert bed.condition("Degraded")[1] == "EvaluationFailed"
    assert "accuracy 0.5000 is below minAccuracy 0.8" in bed.condition("Degraded")[2]
    assert asked(bed) == 40


async def test_a_relative_gate_scores_what_serves_on_the_same_data_set(bed: Bed) -> None:
    put_dataset(bed, cases(20))
    answering(bed, {"laya:multilingual": 10})
    gate = {**GATE, "maxAccuracyDrop": "0.05"}
    await bed.rolled_out(rollout={"evaluation": gate})
    bed.declare(model="laya:multilingual", rollout={"evaluation": gate})
    await bed.settle()
    assert bed.status.phase == "RolledBack"
    assert bed.status.evaluation is not None
    assert bed.status.evaluation.baseline_accuracy == "1.0000"


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda _: None, "DatasetNotFound"),
        (lambda bed: put_secret_dataset(bed, None), "SecretNotAllowed"),
        (lambda bed: put_secret_dataset(bed, "download-token"), "SecretNotAllowed"),
    ],
)
async def test_an_unusable_secret_holds_the_candidate_until_it_is_usable(bed: Bed, prepare: Any, reason: str) -> None:
    prepare(bed)
    answering(bed, {})
    gate = {**GATE, "datasetRef": {"secretRef": {"name": "golden", "key": "cases"}}}
    bed.declare(rollout={"evaluation": gate})
    await bed.settle()
    assert bed.status.phase == "Evaluating"
    assert bed.condition("Evaluated")[:2] == ("False", reason)
    assert bed.events.count("EvaluationOnHold") == 1
    put_secret_dataset(bed, "eval-dataset")
    await bed.advance(60)
    assert bed.status.phase == "Ready"
    assert "DeprecatedSecretLabel" not in bed.events


async def test_the_label_that_once_opened_every_secret_still_does_and_is_told(bed: Bed) -> None:
    put_secret_dataset(bed, "api-key")
    answering(bed, {})
    bed.declare(rollout={"evaluation": {**GATE, "datasetRef": {"secretRef": {"name": "golden", "key": "cases"}}}})
    await bed.settle()
    assert bed.status.phase == "Ready"
    assert bed.events.count("DeprecatedSecretLabel") == 1


async def test_a_malformed_data_set_rejects_at_once_and_names_the_line(bed: Bed) -> None:
    put_dataset(bed, cases(2) + f'\n{{"state": "{CANARY}"')
    bed.declare(rollout={"evaluation": GATE})
    await bed.settle()
    assert bed.status.phase == "Failed"
    assert bed.condition("Degraded")[1] == "DatasetInvalid"
    assert "line 3" in bed.condition("Degraded")[2]


async def test_a_case_that_the_runtime_refuses_holds_the_candidate(bed: Bed) -> None:
    put_dataset(bed, cases(3))
    bed.kubelet.adjust = lambda runtime: setattr(
        runtime, "decide", lambda _: (400, {"code": "INVALID_REQUEST", "error": CANARY})
    )
    bed.declare(rollout={"evaluation": GATE})
    await bed.settle()
    assert bed.status.phase == "Evaluating"
    assert bed.condition("Evaluated")[1] == "DatasetInvalid"
    assert "line 1" in bed.condition("Evaluated")[2]
    await bed.advance(60)
    assert asked(bed) == 1, "only another data set helps"


async def test_a_pod_that_cannot_be_asked_is_asked_again_until_the_deadline(bed: Bed) -> None:
    put_dataset(bed, cases(3))
    bed.kubelet.adjust = lambda runtime: setattr(runtime, "decide", lambda _: (500, {"code": "BROKEN", "error": ""}))
    bed.declare(rollout={"evaluation": GATE, "timeouts": {"evaluating": "1m"}})
    await bed.settle()
    assert bed.status.phase == "Evaluating"
    for _ in range(8):
        await bed.advance(10)
    assert 3 <= asked(bed) <= 8
    assert bed.condition("Degraded")[1] == "EvaluationTimeout"
    assert bed.events.count("EvaluationStarted") == 1


async def test_a_process_that_takes_over_scores_again_and_tells_nobody_twice(bed: Bed) -> None:
    put_dataset(bed, cases(20))
    answering(bed, {})
    bed.kubelet.adjust = lambda runtime: setattr(runtime, "decide", lambda _: (500, {"code": "BROKEN", "error": ""}))
    bed.declare(rollout={"evaluation": GATE})
    await bed.settle()
    assert bed.status.phase == "Evaluating"
    await bed.kill()
    answering(bed, {})
    for runtime in bed.runtimes.by_address.values():
        bed.kubelet.adjust(runtime)
    bed.start()
    await bed.settle()
    assert bed.status.phase == "Ready"
    assert bed.events.count("EvaluationStarted") == 1
    assert bed.events.count("Promoted") == 1


async def test_a_parked_candidate_survives_a_restart_unasked_and_follows_its_data_set(bed: Bed) -> None:
    put_dataset(bed, cases(20))
    answering(bed, {})
    policy = {"evaluation": GATE, "promotion": "Manual"}
    await bed.rolled_out(rollout=policy)
    bed.declare(model="laya:multilingual", rollout=policy)
    await bed.settle()
    assert bed.status.phase == "AwaitingPromotion"
    assert bed.status.evaluation is not None
    approval = bed.status.evaluation.approval_id
    before = asked(bed)
    await bed.restart()
    assert asked(bed) == before
    put_dataset(bed, cases(21))
    bed.declare(model="laya:multilingual", rollout=policy, annotations={PROMOTE_ANNOTATION: approval})
    await bed.settle()
    assert bed.status.phase == "AwaitingPromotion"
    assert bed.events.count("DatasetChanged") == 1
    assert bed.status.evaluation.approval_id != approval
    bed.declare(
        model="laya:multilingual", rollout=policy, annotations={PROMOTE_ANNOTATION: bed.status.evaluation.approval_id}
    )
    await bed.settle()
    assert bed.status.stable_revision is not None
    assert bed.status.stable_revision.model == "laya:multilingual"
    assert PROMOTE_ANNOTATION not in bed.model.metadata.annotations


@pytest.mark.parametrize(("wrong", "phase", "result"), [(0, "Ready", "Passed"), (5, "RolledBack", "Failed")])
async def test_statistics_compare_item_by_item_and_keep_the_evidence(
    bed: Bed, request: pytest.FixtureRequest, wrong: int, phase: str, result: str
) -> None:
    if wrong:
        # That another process can judge needs to be seen once.
        request.getfixturevalue("judged_here")
    put_dataset(bed, cases(100))
    answering(bed, {"laya:multilingual": wrong})
    gate = {**GATE, "minAccuracy": "0.5", "statistics": STATISTICS}
    await bed.rolled_out(rollout={"evaluation": gate})
    bed.declare(model="laya:multilingual", rollout={"evaluation": gate})
    await bed.settle()
    assert bed.status.phase == phase
    evaluation = bed.status.evaluation
    assert evaluation is not None
    assert evaluation.result == result
    kept = bed.get(CONFIG_MAPS, f"router-evidence-{evaluation.revision}")
    evidence = gzip.decompress(base64.b64decode(kept["binaryData"]["evidence"]))
    assert CANARY.encode() not in evidence
    assert json.loads(evidence)["verdict"]["decision"] == ("Promote" if phase == "Ready" else "Reject")


async def test_no_text_of_a_data_set_leaves_through_the_api_server_the_log_or_the_metrics(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    put_dataset(bed, cases(30))
    answering(bed, {"laya:multilingual": 2})
    await bed.rolled_out(rollout={"evaluation": {**GATE, "maxAccuracyDrop": "0.01"}})
    bed.declare(model="laya:multilingual", rollout={"evaluation": {**GATE, "maxAccuracyDrop": "0.01"}})
    await bed.settle()
    assert bed.status.phase == "RolledBack"
    written = [str(request.body) for request in bed.server.writes if "/configmaps/golden" not in request.path]
    assert not [body for body in written if CANARY in body]
    assert CANARY not in caplog.text
    assert CANARY.encode() not in generate_latest(bed.parts.registry)


@pytest.fixture
def judged_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge within this process, which has numpy and scipy already: a process of its own imports them anew."""

    async def judge_here(
        stable: Sequence[Item], candidate: Sequence[Item], inputs: Inputs, parameters: Parameters
    ) -> Proof:
        judgement = await asyncio.to_thread(judge_run, stable, candidate, inputs, parameters)
        return Proof(judgement.verdict, judgement.document)

    monkeypatch.setattr(evaluations, "judge_apart", judge_here)


async def test_evidence_that_cannot_be_written_yet_delays_the_verdict_and_nothing_else(
    bed: Bed, judged_here: None
) -> None:
    put_dataset(bed, cases(100))
    answering(bed, {})
    gate = {**GATE, "minAccuracy": "0.5", "statistics": STATISTICS}
    stable = await bed.rolled_out(rollout={"evaluation": gate})
    refusal = bed.server.fail(
        500,
        matches=lambda request: (
            request.method == "POST" and request.path.endswith("/configmaps") and "evidence" in str(request.body)
        ),
    )
    bed.declare(model="laya:multilingual", rollout={"evaluation": gate})
    await bed.settle()
    assert bed.status.phase == "Evaluating"
    assert bed.selected == stable
    bed.server.faults.remove(refusal)
    await bed.advance(15)
    assert bed.status.phase == "Ready"
    assert bed.status.stable_revision is not None
    assert bed.status.stable_revision.hash != stable


async def test_a_data_set_of_an_impossible_name_is_one_that_is_missing(bed: Bed) -> None:
    reference = {"configMapRef": {"name": "team/golden", "key": "cases"}}
    bed.declare(rollout={"evaluation": {**GATE, "datasetRef": reference}})
    await bed.settle()
    assert bed.condition("Evaluated")[:2] == ("False", "DatasetNotFound")
    await bed.advance(601)
    assert bed.status.phase == "Failed"


async def test_why_nothing_could_be_asked_is_told_in_the_condition_and_once_a_run_in_the_log(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    put_dataset(bed, cases(10))

    def refuse(runtime: FakeRuntime) -> None:
        runtime.decide = lambda _: (500, {"error": {"code": "internal", "message": "broken"}})

    bed.kubelet.adjust = refuse
    bed.declare(rollout={"evaluation": GATE})
    await bed.settle()
    await bed.advance(12)
    assert "500" in bed.condition("Evaluated")[2]
    assert "scoring revision" in caplog.text
    await bed.advance(601)
    assert bed.status.phase == "Failed"
    assert bed.condition("Ready")[1] == "EvaluationTimeout"
    assert "500" in bed.condition("Ready")[2]


async def broken(bed: Bed, **rollout: Any) -> str:
    """Let a revision serve, break it for good, and ask for another one; return the broken one."""
    put_dataset(bed, cases(20))
    answering(bed, {"laya:multilingual": 10})
    policy = {"evaluation": {**GATE, "maxAccuracyDrop": "0.01"}, **rollout}
    stable = await bed.rolled_out(rollout=policy)
    bed.runtime.refusal = 500
    for _ in range(5):
        await bed.advance(61)
    assert bed.condition("Ready")[0] == "False"
    bed.declare(model="laya:multilingual", rollout=policy)
    await bed.settle()
    return stable


async def test_a_serving_revision_that_is_broken_does_not_hold_its_own_repair(bed: Bed) -> None:
    stable = await broken(bed)
    assert bed.selected == stable, "it may come back"
    for _ in range(8):
        await bed.advance(60)
    assert bed.selected not in (None, stable)
    evaluation = bed.status.evaluation
    assert evaluation is not None
    assert evaluation.baseline_accuracy == ""
    assert "nothing was compared" in evaluation.reason
    assert "nothing was compared" in bed.condition("Evaluated")[2]
    assert "EvaluationOnHold" in bed.events


async def test_a_repair_that_a_person_approves_waits_for_nothing_else(bed: Bed) -> None:
    stable = await broken(bed, promotion="Manual")
    await bed.advance(60)
    assert bed.status.phase == "AwaitingPromotion"
    assert "nothing was compared" in bed.condition("Evaluated")[2]
    await bed.advance(60)
    evaluation = bed.status.evaluation
    assert evaluation is not None
    policy = {"evaluation": {**GATE, "maxAccuracyDrop": "0.01"}, "promotion": "Manual"}
    bed.declare(model="laya:multilingual", rollout=policy, annotations={PROMOTE_ANNOTATION: evaluation.approval_id})
    await bed.settle()
    assert bed.selected not in (None, stable)


async def test_a_serving_revision_that_comes_back_in_time_is_compared_with(bed: Bed) -> None:
    stable = await broken(bed)
    next(iter(each for each in bed.runtimes.by_address.values() if each.refusal)).refusal = None
    for _ in range(4):
        await bed.advance(15)
    assert bed.status.phase == "RolledBack"
    assert bed.selected == stable
    assert bed.status.evaluation is not None
    assert bed.status.evaluation.baseline_accuracy == "1.0000"


async def test_a_serving_revision_that_answers_nothing_behind_an_open_gate_is_left_out_in_the_end(bed: Bed) -> None:
    put_dataset(bed, cases(20))
    answering(bed, {"laya:multilingual": 10})
    policy = {"evaluation": {**GATE, "maxAccuracyDrop": "0.01"}}
    stable = await bed.rolled_out(rollout=policy)
    bed.runtime.decide = lambda _: (500, {"code": "BROKEN", "error": ""})
    bed.declare(model="laya:multilingual", rollout=policy)
    await bed.settle()
    for _ in range(28):
        await bed.advance(10)
    assert bed.selected == stable
    for _ in range(6):
        await bed.advance(10)
    assert bed.selected not in (None, stable)
    assert bed.status.evaluation is not None
    assert "has not answered" in bed.status.evaluation.reason

"""A candidate is promoted when it is proven no worse, rejected when it is proven worse, and otherwise undecided."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.rollout import Statistics
from reconciler.evaluation.evidence import decode
from reconciler.evaluation.judgement import judge_run
from reconciler.evaluation.parameters import Inputs, declared_parameters, policy_settings
from reconciler.evaluation.table import Item
from reconciler.evaluation.verdict import Code, Decision, LabelOutcome, Need
from tests.reconciler.evaluation.paired_tables import INPUTS, choice, choices, judged, outcomes, parameters


def tables(items: int, *, fixes: int, breaks: int, wrong: int = 0) -> tuple[list[Item], list[Item]]:
    stable, candidate = outcomes(items, fixes=fixes, breaks=breaks, wrong=wrong)
    return choices(stable), choices(candidate)


def test_a_candidate_that_answers_alike_is_promoted() -> None:
    verdict = judged(*tables(1000, fixes=10, breaks=10, wrong=80))

    assert (verdict.decision, verdict.code, verdict.needs) == (Decision.PROMOTE, Code.NON_INFERIOR, ())
    assert verdict.text == (
        "accuracy is within the margin: +0.0 points (-0.8 to +0.8) on 1000 items, 10 fixed and 10 broken"
    )


def test_a_candidate_that_is_proven_worse_is_rejected() -> None:
    verdict = judged(*tables(1000, fixes=10, breaks=100))

    assert (verdict.decision, verdict.code) == (Decision.REJECT, Code.INFERIOR)


def test_too_few_items_are_undecided_and_say_how_many_would_do() -> None:
    verdict = judged(*tables(100, fixes=4, breaks=4))
    (need,) = verdict.needs

    assert (verdict.decision, verdict.code) == (Decision.UNDECIDED, Code.TOO_FEW_ITEMS)
    assert verdict.text.startswith(f"would decide: {need.items} more items: +0.0 points")
    more = (100 + need.items) // 100 + 1
    assert judged(*tables(100 * more, fixes=4 * more, breaks=4 * more)).decision is Decision.PROMOTE


def test_a_change_at_the_margin_itself_is_undecided_for_good() -> None:
    stable, candidate = (choices(right, sure=0.6) for right in outcomes(1000, fixes=0, breaks=20))
    verdict = judged(stable, candidate)

    assert (verdict.decision, verdict.needs) == (Decision.UNDECIDED, ())


def test_a_label_with_too_few_items_is_undecided_and_named() -> None:
    stable, candidate = tables(1000, fixes=5, breaks=5)
    rare = [choice(2000 + line, True, expected="b", question="rare") for line in range(12)]
    verdict = judged([*stable, *rare], [*candidate, *rare])

    assert (verdict.decision, verdict.code) == (Decision.UNDECIDED, Code.TOO_FEW_ITEMS_OF_LABEL)
    assert verdict.needs == (
        Need(items=20, question="rare", label="a"),
        Need(items=8, question="rare", label="b"),
    )
    assert verdict.text == "would decide: 20 more items of a (rare), 8 more items of b (rare)"


@pytest.mark.parametrize(("items", "decision"), [(19, Decision.UNDECIDED), (20, Decision.PROMOTE)])
def test_the_fewest_items_of_a_label_are_enough(items: int, decision: Decision) -> None:
    stable, candidate = tables(1000, fixes=5, breaks=5)
    rare = [choice(2000 + line, True, expected="ab"[line % 2], question="rare") for line in range(2 * items)]

    assert judged([*stable, *rare], [*candidate, *rare]).decision is decision


def test_one_label_may_not_be_sacrificed_for_the_others() -> None:
    """As accurate as before, but what one label gained the other lost."""
    stable = [choice(line, line > 30, expected="b" if line <= 500 else "a") for line in range(1, 1001)]
    candidate = [choice(line, not 500 < line <= 530, expected="b" if line <= 500 else "a") for line in range(1, 1001)]
    verdict = judged(stable, candidate, margin=0.02)

    assert verdict.comparison is not None
    assert verdict.comparison.accuracy.difference == 0
    assert (verdict.decision, verdict.code) == (Decision.REJECT, Code.LABEL_RECALL_FELL)
    assert verdict.text == "recall of a (q) fell: 30 broken, 0 fixed of 500"
    assert [label.outcome for label in verdict.comparison.labels] == [LabelOutcome.FELL, LabelOutcome.KEPT]


def test_a_fall_within_the_margin_is_forgiven_however_sure() -> None:
    stable, candidate = tables(2000, fixes=0, breaks=12)

    assert judged(stable, candidate).decision is Decision.PROMOTE


def test_probabilities_may_not_get_worse_behind_equal_choices() -> None:
    stable, candidate = outcomes(1000, fixes=0, breaks=0, wrong=100)
    verdict = judged(choices(stable, sure=0.9), choices(candidate, sure=0.99))

    assert (verdict.decision, verdict.code) == (Decision.REJECT, Code.LOG_LOSS_ROSE)
    assert verdict.text == "log-loss rose: 0.325 to 0.470, 0.020 more is forgiven"


def test_the_brier_score_sees_what_the_logarithm_forgives() -> None:
    """A few certain mistakes become hesitant, and many certain answers too: log-loss falls, the Brier score rises."""
    sures = [1.0 if line <= 10 else 0.9 for line in range(1, 1001)]
    rows = list(enumerate(sures, 1))
    stable = [choice(line, line > 10, expected="ab"[line % 2], sure=sure) for line, sure in rows]
    candidate = [choice(line, line > 10, expected="ab"[line % 2], sure=0.8) for line, _ in rows]
    verdict = judged(stable, candidate)

    assert verdict.comparison is not None
    assert verdict.comparison.log_loss is not None
    assert verdict.comparison.log_loss.difference < 0.02
    assert (verdict.decision, verdict.code) == (Decision.REJECT, Code.BRIER_ROSE)
    assert verdict.text == "the Brier score rose: 0.020 to 0.046, 0.020 more is forgiven"


def test_dependent_questions_count_for_less() -> None:
    right = outcomes(200, fixes=10, breaks=10)
    asked_thrice = [
        [
            choice(line, each, question=f"q{n}", expected="ab"[line % 2])
            for line, each in enumerate(of, 1)
            for n in "xyz"
        ]
        for of in right
    ]
    once, thrice = judged(choices(right[0]), choices(right[1])), judged(*asked_thrice)

    assert once.comparison is not None
    assert thrice.comparison is not None
    assert thrice.comparison.accuracy.design_effect == 3
    assert thrice.comparison.accuracy.lower == pytest.approx(once.comparison.accuracy.lower, abs=1e-9)
    assert once.needs
    assert thrice.needs[0].items == pytest.approx(3 * once.needs[0].items, abs=3)


def test_latency_is_that_of_the_cases() -> None:
    items = [replace(choice(line, True, question=q), seconds=line / 1000) for line in range(1, 101) for q in "xy"]
    verdict = judged(items, items)

    assert verdict.comparison is not None
    assert (verdict.comparison.stable_latency.p50, verdict.comparison.candidate_latency.p95) == (50, 95)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 1000))
def test_a_verdict_does_not_depend_on_the_order_of_the_rows(fixes: int, breaks: int, wrong: int, seed: int) -> None:
    stable, candidate = tables(100, fixes=fixes, breaks=breaks, wrong=wrong)
    shuffled = random.Random(seed)  # noqa: S311 # no secret
    mixed = [shuffled.sample(table, len(table)) for table in (stable, candidate)]

    assert judged(*mixed).canonical() == judged(stable, candidate).canonical()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([0.01, 0.05, 0.2]), st.sampled_from([0.8, 0.95, 0.99]))
def test_only_what_is_proven_promotes_or_rejects_on_accuracy(
    fixes: int, breaks: int, margin: float, confidence: float
) -> None:
    verdict = judged(*tables(200, fixes=fixes, breaks=breaks), margin=margin, confidence=confidence)
    assert verdict.comparison is not None
    accuracy = verdict.comparison.accuracy

    assert accuracy.lower <= accuracy.difference <= accuracy.upper
    if verdict.decision is Decision.PROMOTE:
        assert accuracy.lower > -margin
    if verdict.code is Code.INFERIOR:
        assert accuracy.upper < -margin


def test_a_worker_process_can_be_asked() -> None:
    arguments = pickle.loads(pickle.dumps((*tables(100, fixes=3, breaks=2), INPUTS, parameters())))  # noqa: S301 # ours
    judgement = judge_run(*arguments)

    assert pickle.loads(pickle.dumps(judgement)) == judgement  # noqa: S301 # ours
    assert decode(judgement.document).verdict == judgement.verdict


def test_the_reconciler_itself_needs_neither_numpy_nor_the_engines_sdk() -> None:
    modules = ("evidence", "parameters", "paired_accuracy", "planner", "validity", "verdict", "weighing")
    program = (
        f"import sys, reconciler.main; from reconciler.evaluation import {', '.join(modules)};"
        "print({'numpy', 'scipy', 'pulumi', 'pulumi_kubernetes'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "set()"


def test_parameters_are_those_of_the_spec() -> None:
    declared = Statistics.model_validate({"method": "paired", "nonInferiorityMargin": "0.03", "confidence": "0.9"})
    read = declared_parameters(declared, seed=INPUTS.seed)

    assert (read.confidence, read.margin, read.min_items_per_label, read.seed) == (0.9, 0.03, 20, INPUTS.seed)
    assert policy_settings(declared) == (
        "statistics=paired",
        "confidence=0.9",
        "nonInferiorityMargin=0.03",
        "minItemsPerLabel=20",
        "rules=2",
    )


@pytest.mark.parametrize(
    "field", ["dataset_digest", "policy_hash", "stable_digest", "candidate_digest", "scorer_version"]
)
def test_the_seed_follows_from_everything_compared(field: str) -> None:
    texts = {name: getattr(INPUTS, name) for name in Inputs.__struct_fields__}

    assert Inputs(**texts).seed == INPUTS.seed
    assert Inputs(**{**texts, field: "other"}).seed != INPUTS.seed

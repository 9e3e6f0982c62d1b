"""Whatever the confidence and the number of labels: great harm never passes because an alarm could not fire."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.evaluation.alarms import (
    RESAMPLES,
    affordable_resamples,
    disagreements_to_prove,
    is_blind,
    resamples_for,
)
from reconciler.evaluation.evidence import EvidenceInvalid, decode, encode
from reconciler.evaluation.judgement import judge_run, recompute
from reconciler.evaluation.mcnemar import drop_p_value
from reconciler.evaluation.parameters import Parameters
from reconciler.evaluation.planner import blind_scores
from reconciler.evaluation.table import Item, QuestionKind
from reconciler.evaluation.verdict import Code, Decision, Verdict
from tests.reconciler.evaluation.paired_tables import INPUTS, parameters

confidences = st.integers(500_001, 999_999).map(lambda parts: float(Decimal(parts) / 1_000_000))
"""All that the API admits: six digits after the point, above a half."""
SURE, HARMFUL = 0.98, 0.02


def answers(labels: int, each: int, sure: float = SURE, lost: str = "", *, gap: int = 0) -> list[Item]:
    """Right answers to `each` items of every label, those of the label `lost` wrong."""
    names = [f"l{number}" for number in range(labels)]
    return [
        _answer(number * each + turn + 1, names, name, sure if turn or not gap else 0.5, right=name != lost)
        for number, name in enumerate(names)
        for turn in range(each)
    ]


def _answer(line: int, names: list[str], expected: str, sure: float, *, right: bool) -> Item:
    other = names[0] if names[0] != expected else names[-1]
    predicted = expected if right else other
    rest = (1 - sure) / max(1, len(names) - 1)
    return Item(
        line=line,
        question="q",
        kind=QuestionKind.CHOICE,
        expected=expected,
        predicted=predicted,
        correct=right,
        confidence=0.9,
        probabilities={name: sure if name == expected else rest for name in names},
    )


def judged(stable: list[Item], candidate: list[Item], **changes: object) -> Verdict:
    given = {"resamples": RESAMPLES, "margin": 0.25, **changes}
    return judge_run(stable, candidate, INPUTS, parameters(**given)).verdict


@pytest.mark.parametrize(("confidence", "labels"), [(0.999, 3), (0.99, 39)])
def test_many_labels_or_a_high_confidence_do_not_silence_the_scores(confidence: float, labels: int) -> None:
    """One item differs from the others, so that there is something to resample."""
    each = 780 // labels
    stable, candidate = answers(labels, each), answers(labels, each, HARMFUL, gap=1)
    verdict = judged(stable, candidate, confidence=confidence)

    assert (verdict.decision, verdict.code) == (Decision.REJECT, Code.LOG_LOSS_ROSE)
    assert verdict.parameters.resamples > RESAMPLES


@settings(max_examples=60, deadline=None)
@given(confidences, st.integers(2, 40), st.integers(1, 30), st.integers(1, 40))
@example(0.999, 3, 100, 20)
@example(0.999999, 255, 4, 1)
@example(0.51, 2, 1, 1)
def test_probabilities_that_turned_false_are_never_promoted(
    confidence: float, labels: int, each: int, fewest: int
) -> None:
    stable, candidate = answers(labels, each), answers(labels, each, HARMFUL)

    verdict = judged(stable, candidate, confidence=confidence, min_items_per_label=fewest)

    assert verdict.decision is not Decision.PROMOTE


@settings(max_examples=60, deadline=None)
@given(confidences, st.integers(2, 12), st.integers(1, 40), st.integers(1, 40))
@example(0.95, 12, 2, 1)
def test_a_label_that_was_lost_is_never_promoted(confidence: float, labels: int, each: int, fewest: int) -> None:
    """The other labels are kept, and nothing says so but the one label's recall."""
    plain: dict[str, object] = {"probabilities": {}}
    stable, candidate = (
        [msgspec.convert({**_fields(item), **plain}, Item) for item in answers(labels, each, lost=lost)]
        for lost in ("", "l1")
    )

    verdict = judged(stable, candidate, confidence=confidence, min_items_per_label=fewest)

    assert verdict.decision is not Decision.PROMOTE


def _fields(item: Item) -> dict[str, object]:
    return {name: getattr(item, name) for name in Item.__slots__}


def test_what_cannot_be_proven_is_undecided_and_says_why() -> None:
    verdict = judged(answers(3, 1000), answers(3, 1000, HARMFUL), confidence=0.999999)

    assert (verdict.decision, verdict.code) == (Decision.UNDECIDED, Code.ALARM_CANNOT_FIRE)
    assert verdict.text == (
        "log-loss rose: 0.020 to 3.912, 0.288 more is forgiven, but 5 alarms at a confidence of 0.999999 cannot fire "
        "on 3000 items and 133333 resamples; lower the confidence, or use fewer labels or more items"
    )


def test_a_candidate_without_harm_is_promoted_although_an_alarm_is_blind() -> None:
    table = answers(3, 1000)

    assert judged(table, table, confidence=0.999999).decision is Decision.PROMOTE


def test_a_lost_label_that_is_too_rare_says_how_many_items_would_do() -> None:
    verdict = judged(answers(40, 9), answers(40, 9, lost="l1"), confidence=0.9999, min_items_per_label=3)
    (need,) = verdict.needs

    assert (verdict.decision, verdict.code) == (Decision.UNDECIDED, Code.TOO_FEW_ITEMS_OF_LABEL)
    assert (need.label, need.items) == ("l1", disagreements_to_prove(42, 0.9999) - 9)


@given(confidences, st.integers(1, 50_000), st.integers(2, 5000))
def test_the_planner_tells_exactly_the_alarms_that_cannot_fire(confidence: float, labels: int, cases: int) -> None:
    resamples = resamples_for(labels + 2, confidence, cases)
    least = (labels + 2) / (resamples + 1)

    assert RESAMPLES <= resamples <= affordable_resamples(cases)
    assert is_blind(resamples, labels + 2, confidence) == (least > 1 - confidence)
    assert bool(blind_scores(confidence, cases, labels)) == (least > 1 - confidence)


@given(confidences, st.integers(1, 5000))
def test_so_many_breaks_prove_the_loss_of_a_label_and_one_fewer_does_not(confidence: float, alarms: int) -> None:
    least = disagreements_to_prove(alarms, confidence)

    assert alarms * drop_p_value(0, least) <= 1 - confidence
    assert alarms * drop_p_value(0, least - 1) > 1 - confidence


# Evidence from before.


def test_an_older_verdict_is_recomputed_as_it_was() -> None:
    """By its own rules and resamples, also where an alarm was blind."""
    stable, candidate = answers(3, 200), answers(3, 200, HARMFUL)
    document = judge_run(stable, candidate, INPUTS, parameters(confidence=0.999, margin=0.25)).document
    evidence = decode(document)
    before = Parameters(confidence=0.999, margin=0.25, min_items_per_label=20, seed=INPUTS.seed)
    older = msgspec.structs.replace(evidence, verdict=msgspec.structs.replace(evidence.verdict, parameters=before))
    verdict = recompute(older)
    stored = encode(msgspec.structs.replace(older, verdict=verdict))

    assert verdict.decision is Decision.PROMOTE
    assert b"rules" not in verdict.canonical()
    assert b"blind" not in verdict.canonical()
    assert recompute(decode(stored)).canonical() == verdict.canonical()


def test_evidence_that_would_take_hours_to_judge_again_is_refused() -> None:
    evidence = decode(judge_run(answers(3, 1000), answers(3, 1000), INPUTS, parameters()).document)
    costly = msgspec.structs.replace(evidence.verdict.parameters, resamples=1_000_000)
    verdict = msgspec.structs.replace(evidence.verdict, parameters=costly)

    with pytest.raises(EvidenceInvalid, match="more than 133333 resamples"):
        decode(encode(msgspec.structs.replace(evidence, verdict=verdict)))

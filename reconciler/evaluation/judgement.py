"""Judging a candidate by two tables: the part of the gate that goes beyond thresholds.

Imports numpy and scipy, which is slow and takes memory: call it in a worker process, and decide with what it returns.
`judge_run` is made for that: a plain function of values that can be pickled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconciler.evaluation import calibration_noise, paired_accuracy
from reconciler.evaluation.evidence import Evidence, EvidenceTooLarge, encode
from reconciler.evaluation.label_recall import LabelChange, label_changes
from reconciler.evaluation.mcnemar import change_p_values
from reconciler.evaluation.multiplicity import holm
from reconciler.evaluation.paired_accuracy import PairedCounts
from reconciler.evaluation.parameters import Inputs, Parameters
from reconciler.evaluation.proper_scores import BRIER, LOG_LOSS, Change, Resampling
from reconciler.evaluation.stored_table import PRECISIONS, Precision, StoredItem, store
from reconciler.evaluation.table import Item
from reconciler.evaluation.validity import Pair, explain, find_invalidity
from reconciler.evaluation.verdict import (
    Accuracy,
    Calibration,
    Comparison,
    Decision,
    LabelOutcome,
    LabelRecall,
    Latency,
    ScoreChange,
    Verdict,
)
from reconciler.evaluation.weighing import weigh

_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and the document that proves it."""

    verdict: Verdict
    document: bytes
    """The encoded evidence."""


def judge_run(stable: Sequence[Item], candidate: Sequence[Item], inputs: Inputs, parameters: Parameters) -> Judgement:
    """Judge a candidate, and gather the evidence, as exactly as its largest size allows.

    The verdict is computed from what the evidence keeps, never from more.

    Raises:
        EvidenceTooLarge: Not even the smallest form fits; a data set within its own limit never comes near.
    """
    for precision in PRECISIONS:
        tables = store(stable, precision), store(candidate, precision)
        verdict = judge(*tables, parameters, precision)
        evidence = Evidence(inputs=inputs, verdict=verdict, precision=precision, stable=tables[0], candidate=tables[1])
        try:
            return Judgement(verdict, encode(evidence))
        except EvidenceTooLarge:
            if precision is PRECISIONS[-1]:
                raise
    raise AssertionError("unreachable: the last precision returns or raises")


def recompute(evidence: Evidence) -> Verdict:
    """Judge again from the evidence alone; the canonical text is that of the stored verdict unless one was altered."""
    return judge(evidence.stable, evidence.candidate, evidence.verdict.parameters, evidence.precision)


def judge(
    stable: Sequence[StoredItem], candidate: Sequence[StoredItem], parameters: Parameters, precision: Precision
) -> Verdict:
    """Validity first, then the primary comparison and the guardrails (docs/evaluation.md)."""
    flaw = find_invalidity(stable, candidate, precision)
    if flaw is not None:
        return Verdict(decision=Decision.REJECT, code=flaw[0], text=explain(*flaw), parameters=parameters)
    comparison = _compare(list(zip(stable, candidate, strict=True)), parameters)
    weighed = weigh(comparison, parameters)
    return Verdict(
        decision=weighed.decision,
        code=weighed.code,
        text=weighed.text,
        needs=weighed.needs,
        parameters=parameters,
        comparison=comparison,
    )


def _compare(pairs: Sequence[Pair], parameters: Parameters) -> Comparison:
    resampling = Resampling(parameters.resamples, parameters.confidence, parameters.seed)
    log_loss, brier = LOG_LOSS.change(pairs, resampling), BRIER.change(pairs, resampling)
    labels = label_changes(pairs)
    looked_at = [change for change in labels if change.items >= parameters.min_items_per_label]
    # One family of alarms, in a fixed order: labels, log-loss, Brier score.
    scores = [change.p_value for change in (log_loss, brier) if change is not None]
    adjusted = iter(holm([*(change.p_value for change in looked_at), *scores]))
    label_p_values = {change: next(adjusted) for change in looked_at}
    return Comparison(
        accuracy=_accuracy(pairs, parameters.confidence),
        labels=tuple(_label(change, label_p_values.get(change), parameters) for change in labels),
        # A margin of probability is one of its logarithm, too: what multiplies the typical probability by 1 - margin.
        log_loss=_score(log_loss, adjusted, -math.log1p(-parameters.margin)),
        brier=_score(brier, adjusted, parameters.margin),
        stable_calibration=_calibration([stable for stable, _ in pairs], parameters.seed),
        candidate_calibration=_calibration([candidate for _, candidate in pairs], parameters.seed),
        stable_latency=_latency([stable for stable, _ in pairs]),
        candidate_latency=_latency([candidate for _, candidate in pairs]),
    )


def _accuracy(pairs: Sequence[Pair], confidence: float) -> Accuracy:
    changes = [(stable.line, candidate.correct - stable.correct) for stable, candidate in pairs]
    fixes, breaks = (sum(change == sign for _, change in changes) for sign in (1, -1))
    counts = PairedCounts(len(pairs), fixes, breaks)
    effect = paired_accuracy.design_effect(changes)
    lower, upper = paired_accuracy.score_interval(counts.shrunk(effect), confidence)
    exact, mid_p = change_p_values(fixes, breaks)
    return Accuracy(
        items=len(pairs),
        stable=round(sum(stable.correct for stable, _ in pairs) / len(pairs), _DIGITS),
        candidate=round(sum(candidate.correct for _, candidate in pairs) / len(pairs), _DIGITS),
        fixes=fixes,
        breaks=breaks,
        difference=round(counts.difference, _DIGITS),
        lower=round(lower, _DIGITS),
        upper=round(upper, _DIGITS),
        design_effect=round(effect, _DIGITS),
        mcnemar_exact=round(exact, _DIGITS),
        mcnemar_mid_p=round(mid_p, _DIGITS),
    )


def _label(change: LabelChange, p_value: float | None, parameters: Parameters) -> LabelRecall:
    difference = change.difference
    return LabelRecall(
        question=change.question,
        label=change.label,
        items=change.items,
        fixes=change.fixes,
        breaks=change.breaks,
        difference=None if difference is None else round(difference, _DIGITS),
        p_value=None if p_value is None else round(p_value, _DIGITS),
        outcome=_outcome(difference, p_value, parameters),
    )


def _outcome(difference: float | None, p_value: float | None, parameters: Parameters) -> LabelOutcome:
    if difference is None or p_value is None:
        return LabelOutcome.INSUFFICIENT
    fell = p_value <= 1 - parameters.confidence and difference < -parameters.margin
    return LabelOutcome.FELL if fell else LabelOutcome.KEPT


def _score(change: Change | None, adjusted: Iterator[float], tolerated: float) -> ScoreChange | None:
    if change is None:
        return None
    return ScoreChange(
        stable=round(change.stable, _DIGITS),
        candidate=round(change.candidate, _DIGITS),
        difference=round(change.candidate - change.stable, _DIGITS),
        lower=round(change.lower, _DIGITS),
        upper=round(change.upper, _DIGITS),
        p_value=round(next(adjusted), _DIGITS),
        tolerated=round(tolerated, _DIGITS),
    )


def _calibration(table: Sequence[StoredItem], seed: int) -> Calibration | None:
    confidences, correct = calibration_noise.calibrated(table)
    if not len(confidences):
        return None
    median, high = calibration_noise.noise_floor(confidences, seed)
    return Calibration(
        items=len(confidences),
        error=round(calibration_noise.calibration_error(confidences, correct), _DIGITS),
        noise_median=round(median, _DIGITS),
        noise_95=round(high, _DIGITS),
    )


def _latency(table: Sequence[StoredItem]) -> Latency:
    by_case = sorted({row.line: row.micros for row in table}.values())
    return Latency(p50=_nearest_rank(by_case, 0.50) / 1000, p95=_nearest_rank(by_case, 0.95) / 1000)


def _nearest_rank(ordered: Sequence[int], share: float) -> int:
    return ordered[math.ceil(share * len(ordered)) - 1]

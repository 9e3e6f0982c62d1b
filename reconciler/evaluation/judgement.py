"""Judging a candidate by two tables: the part of the gate that goes beyond thresholds.

Imports numpy and scipy, which is slow and takes memory: call it in a worker process, and decide with what it returns.
`judge_run` is made for that: a plain function of values that can be pickled.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from reconciler.evaluation import calibration_noise, paired_accuracy
from reconciler.evaluation.alarms import disagreements_to_prove, is_blind, resamples_for
from reconciler.evaluation.evidence import Evidence, EvidenceTooLarge, encode
from reconciler.evaluation.label_recall import LabelChange, label_changes
from reconciler.evaluation.mcnemar import change_p_values
from reconciler.evaluation.multiplicity import holm
from reconciler.evaluation.paired_accuracy import PairedCounts
from reconciler.evaluation.parameters import Inputs, Parameters
from reconciler.evaluation.proper_scores import BRIER, LOG_LOSS, Change, Resampling
from reconciler.evaluation.stored_table import PRECISIONS, SUM_TOLERANCE, Precision, StoredItem, store, sum_tolerance
from reconciler.evaluation.table import Item, QuestionKind
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
_SCORES = 2
# The same rise in one case is the same in every resample.
_LEAST_CASES = 2


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and the document that proves it."""

    verdict: Verdict
    document: bytes
    """The encoded evidence."""


def judge_run(stable: Sequence[Item], candidate: Sequence[Item], inputs: Inputs, parameters: Parameters) -> Judgement:
    """Judge a candidate, and gather the evidence, as exactly as its largest size allows.

    The verdict is computed from what the evidence keeps, never from more. There are at least as many resamples as
    the parameters say, and more where an alarm could not fire with so few.

    Raises:
        EvidenceTooLarge: Not even the smallest form fits; a data set within its own limit never comes near.
    """
    parameters = _with_resamples(parameters, stable)
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
    # The older rules knew one tolerance for any number of labels.
    tolerance = sum_tolerance if parameters.follows_newest_rules else lambda _: SUM_TOLERANCE
    flaw = find_invalidity(stable, candidate, precision, tolerance)
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


def _with_resamples(parameters: Parameters, stable: Sequence[Item]) -> Parameters:
    expected = Counter((item.question, item.expected) for item in stable if item.kind is not QuestionKind.SCORE)
    labels = sum(items >= parameters.min_items_per_label for items in expected.values())
    needed = resamples_for(labels + _SCORES, parameters.confidence, len({item.line for item in stable}))
    return msgspec.structs.replace(parameters, resamples=max(parameters.resamples, needed))


def _compare(pairs: Sequence[Pair], parameters: Parameters) -> Comparison:
    resampling = Resampling(parameters.resamples, parameters.confidence, parameters.seed)
    log_loss, brier = LOG_LOSS.change(pairs, resampling), BRIER.change(pairs, resampling)
    labels = label_changes(pairs)
    looked_at = [change for change in labels if change.items >= parameters.min_items_per_label]
    # One family of alarms, in a fixed order: labels, log-loss, Brier score.
    p_values = [change.p_value for change in (*looked_at, log_loss, brier) if change is not None]
    adjusted = iter(holm(p_values))
    label_p_values = {change: next(adjusted) for change in looked_at}
    alarms = _Alarms(len(p_values), parameters)
    return Comparison(
        accuracy=_accuracy(pairs, parameters.confidence),
        labels=tuple(_label(change, label_p_values.get(change), alarms) for change in labels),
        # A margin of probability is one of its logarithm, too: what multiplies the typical probability by 1 - margin.
        log_loss=_score(log_loss, adjusted, alarms, -math.log1p(-parameters.margin)),
        brier=_score(brier, adjusted, alarms, parameters.margin),
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


@dataclass(frozen=True, slots=True)
class _Alarms:
    """The alarms of one comparison, which share its level."""

    count: int
    parameters: Parameters

    def label_outcome(self, change: LabelChange, p_value: float | None) -> LabelOutcome:
        difference = change.difference
        if difference is None or p_value is None:
            return LabelOutcome.INSUFFICIENT
        if difference >= -self.parameters.margin:
            return LabelOutcome.KEPT
        if p_value <= 1 - self.parameters.confidence:
            return LabelOutcome.FELL
        return LabelOutcome.INSUFFICIENT if self._is_too_rare(change) else LabelOutcome.KEPT

    def is_blind(self, change: Change) -> bool:
        """Whether no rise of a score could be proven; never said by the older rules."""
        if not self.parameters.follows_newest_rules:
            return False
        return change.cases < _LEAST_CASES or is_blind(
            self.parameters.resamples, self.count, self.parameters.confidence
        )

    def _is_too_rare(self, change: LabelChange) -> bool:
        least = disagreements_to_prove(self.count, self.parameters.confidence)
        return self.parameters.follows_newest_rules and change.items < least


def _label(change: LabelChange, p_value: float | None, alarms: _Alarms) -> LabelRecall:
    difference = change.difference
    return LabelRecall(
        question=change.question,
        label=change.label,
        items=change.items,
        fixes=change.fixes,
        breaks=change.breaks,
        difference=None if difference is None else round(difference, _DIGITS),
        p_value=None if p_value is None else round(p_value, _DIGITS),
        outcome=alarms.label_outcome(change, p_value),
    )


def _score(change: Change | None, adjusted: Iterator[float], alarms: _Alarms, tolerated: float) -> ScoreChange | None:
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
        blind=True if alarms.is_blind(change) else msgspec.UNSET,
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

"""What a comparison of two revisions came to: a frozen value with one canonical text. Pure, and without numpy.

Numbers are rounded to nine digits after the point, far beyond what they mean, so that equal
comparisons have equal texts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from reconciler.evaluation.canonical import Strict, Text, encode_canonical
from reconciler.evaluation.parameters import Parameters


class Decision(StrEnum):
    """What the comparison says about the candidate."""

    PROMOTE = "Promote"
    REJECT = "Reject"
    UNDECIDED = "Undecided"
    """It cannot be told, in most cases because the data set is too small; never promotes."""


class Code(StrEnum):
    """Why; a closed set. From `NO_ITEMS` on, why the tables cannot be compared."""

    NON_INFERIOR = "NonInferior"
    INFERIOR = "Inferior"
    LABEL_RECALL_FELL = "LabelRecallFell"
    LOG_LOSS_ROSE = "LogLossRose"
    BRIER_ROSE = "BrierRose"
    TOO_FEW_ITEMS = "TooFewItems"
    TOO_FEW_ITEMS_OF_LABEL = "TooFewItemsOfLabel"
    ALARM_CANNOT_FIRE = "AlarmCannotFire"
    NO_ITEMS = "NoItems"
    DUPLICATE_ITEMS = "DuplicateItems"
    ITEMS_DIFFER = "ItemsDiffer"
    EXPECTATIONS_DIFFER = "ExpectationsDiffer"
    UNANSWERED_BY_STABLE = "UnansweredByStable"
    UNANSWERED_BY_CANDIDATE = "UnansweredByCandidate"
    INVALID_PROBABILITIES = "InvalidProbabilities"
    LABEL_SETS_DIFFER = "LabelSetsDiffer"
    UNKNOWN_LABEL = "UnknownLabel"


class Accuracy(Strict, frozen=True, kw_only=True):
    """The primary comparison; shares are of all items."""

    items: int
    stable: float
    candidate: float
    fixes: int
    """Items that only the candidate answered correctly."""
    breaks: int
    """Items that only the stable answered correctly."""
    difference: float
    lower: float
    """The true difference is above this with the confidence asked for: above minus the margin, it is non-inferior."""
    upper: float
    """The true difference is below this, likewise."""
    design_effect: float
    """By how much fewer the items count because questions of one case are dependent; 1 with one question a case."""
    mcnemar_exact: float
    """Two-sided p-value of no change at all, taking items for independent; shown, not decided upon."""
    mcnemar_mid_p: float


class LabelOutcome(StrEnum):
    """What a guardrail says about one label."""

    KEPT = "Kept"
    FELL = "Fell"
    INSUFFICIENT = "Insufficient"


class LabelRecall(Strict, frozen=True, kw_only=True):
    """How the recall of one label of one question changed."""

    question: Text
    label: Text
    items: int
    fixes: int
    breaks: int
    difference: float | None
    """None without any item."""
    p_value: float | None
    """Of no fall, adjusted for all guardrails; None when there are too few items to look at."""
    outcome: LabelOutcome


class ScoreChange(Strict, frozen=True, kw_only=True):
    """How a score of the probabilities changed; more is worse."""

    stable: float
    candidate: float
    difference: float
    lower: float
    upper: float
    p_value: float
    """Of no rise, adjusted for all guardrails."""
    tolerated: float
    """The rise up to which the margin forgives."""
    blind: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    """No rise, however large, could have been proven with so many alarms, resamples and cases."""


class Calibration(Strict, frozen=True, kw_only=True):
    """The calibration error beside its noise floor; shown, not decided upon."""

    items: int
    error: float
    noise_median: float
    """What half of all perfectly calibrated models would exceed on these items."""
    noise_95: float
    """What one in twenty of them would exceed."""


class Latency(Strict, frozen=True, kw_only=True):
    """Of the calls, one a case, in milliseconds."""

    p50: float
    p95: float


class Need(Strict, frozen=True, kw_only=True):
    """Items that would decide."""

    items: int
    question: Text | None = None
    """None for any item."""
    label: Text | None = None


class Comparison(Strict, frozen=True, kw_only=True):
    """Everything measured on two comparable tables."""

    accuracy: Accuracy
    labels: tuple[LabelRecall, ...]
    log_loss: ScoreChange | None
    """None when no answer came with probabilities."""
    brier: ScoreChange | None
    stable_calibration: Calibration | None
    candidate_calibration: Calibration | None
    stable_latency: Latency
    candidate_latency: Latency


class Verdict(Strict, frozen=True, kw_only=True):
    """The decision, why, and what it rests on."""

    decision: Decision
    code: Code
    text: Text
    needs: tuple[Need, ...] = ()
    """What would decide; empty unless undecided, and when no affordable number of items would."""
    parameters: Parameters
    comparison: Comparison | None = None
    """None when the tables cannot be compared."""

    def canonical(self) -> bytes:
        """The verdict's JSON text: equal verdicts give equal bytes."""
        return encode_canonical(self)

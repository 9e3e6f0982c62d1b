"""How a new revision takes over: strategy, promotion policy, deadlines, gates (spec section 1.2)."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from api.base import ApiModel
from api.duration import parse_duration, parse_nanoseconds
from api.references import KeyReference
from api.rules import Rule

_DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$"
_MINUTE = parse_nanoseconds("1m")
_DAY = parse_nanoseconds("24h")

# CEL runs even where the pattern has failed already; without the guard users would read a conversion error besides.
_ELSEWHERE_REFUSED = f"!self.matches('{_DURATION_PATTERN}')".replace("\\", "\\\\")
_WITHIN_A_DAY = "(duration(self) >= duration('1m') && duration(self) <= duration('24h'))"


def _within_a_day(text: str) -> bool:
    return _MINUTE <= parse_nanoseconds(text) <= _DAY


_DURATION_TEXT = Field(max_length=32, pattern=_DURATION_PATTERN)

Timeout = Annotated[
    str,
    _DURATION_TEXT,
    Rule(f"{_ELSEWHERE_REFUSED} || {_WITHIN_A_DAY}", "must be a duration between 1m and 24h", _within_a_day),
]

StabilizationWindow = Annotated[
    str,
    _DURATION_TEXT,
    Rule(
        f"{_ELSEWHERE_REFUSED} || duration(self) == duration('0s') || {_WITHIN_A_DAY}",
        "must be 0s or a duration between 1m and 24h",
        lambda text: parse_nanoseconds(text) == 0 or _within_a_day(text),
    ),
]

_LONGEST_DECIMAL = 32
"""Characters of a decimal; without a bound a spec could make a number that takes minutes to compute with."""

Fraction = Annotated[str, Field(max_length=_LONGEST_DECIMAL, pattern=r"^(0(\.[0-9]+)?|1(\.0+)?)$")]
"""A decimal between 0 and 1 as text: JSON numbers would not survive a round trip unchanged."""

_DECIMAL_PATTERN = r"^0\.[0-9]{1,6}$"
_DECIMAL_TEXT = Field(max_length=8, pattern=_DECIMAL_PATTERN)
_NO_DECIMAL = f"!self.matches('{_DECIMAL_PATTERN}')".replace("\\", "\\\\")

Confidence = Annotated[
    str,
    _DECIMAL_TEXT,
    Rule(
        f"{_NO_DECIMAL} || (double(self) > 0.5 && double(self) < 1.0)",
        "must be a decimal above 0.5 and below 1: at 0.5 a coin would decide, and nothing is ever certain",
        lambda text: float(text) > 0.5,
    ),
]

Margin = Annotated[
    str,
    _DECIMAL_TEXT,
    Rule(
        f"{_NO_DECIMAL} || (double(self) > 0.0 && double(self) <= 0.25)",
        'must be a decimal above 0 and at most 0.25, for example "0.02" for two points of accuracy',
        lambda text: 0 < float(text) <= 0.25,
    ),
]


class Strategy(StrEnum):
    """Whether the serving revision runs on while its successor starts."""

    BLUE_GREEN = "BlueGreen"
    RECREATE = "Recreate"


class Promotion(StrEnum):
    """What a ready candidate still needs before it serves."""

    AUTOMATIC = "Automatic"
    EVALUATION_GATED = "EvaluationGated"
    MANUAL = "Manual"


class DatasetReference(ApiModel):
    """Where the golden data set is: one key of a ConfigMap or of a Secret in the same namespace."""

    rules = (
        Rule(
            "has(self.configMapRef) != has(self.secretRef)",
            "exactly one of configMapRef and secretRef must be set",
            lambda self: (self.config_map_ref is None) != (self.secret_ref is None),
        ),
    )

    config_map_ref: KeyReference | None = None
    """A key of a ConfigMap."""
    secret_ref: KeyReference | None = None
    """A key of a Secret that carries the label decisionmodel.io/eval-dataset: "true"."""


class StatisticsMethod(StrEnum):
    """How the candidate's answers are weighed against the serving revision's."""

    PAIRED = "paired"


class OnUndecided(StrEnum):
    """What becomes of a candidate that the data set is too small to judge."""

    HOLD = "Hold"
    REJECT = "Reject"


class Statistics(ApiModel):
    """A proof, on top of the gates, that the candidate is no worse than the serving revision by more than a margin."""

    method: StatisticsMethod
    """How the proof is made; paired compares both revisions item by item on the same data set."""
    confidence: Confidence = "0.95"
    """How sure a promotion, and a rejection, must be."""
    non_inferiority_margin: Margin
    """How much worse is still no worse, as a share of the items; for example "0.02"."""
    min_items_per_label: Annotated[int, Field(ge=1, le=5000)] = 20
    """The fewest items of a label that count; with 20, losing half of one of 20 labels is noticed."""
    on_undecided: OnUndecided = OnUndecided.HOLD
    """Hold waits for more items until the evaluation's deadline, Reject gives the candidate up at once."""


class Evaluation(ApiModel):
    """The golden data set every candidate is scored on, and the gates it must pass."""

    rules = (
        Rule(
            "!has(self.statistics) || !has(self.statistics.minItemsPerLabel) || !has(self.maxCases)"
            " || self.statistics.minItemsPerLabel <= self.maxCases",
            "statistics.minItemsPerLabel must not exceed maxCases: no label could ever have enough items",
            lambda self: self.statistics is None or self.statistics.min_items_per_label <= self.max_cases,
        ),
    )

    dataset_ref: DatasetReference
    """Where the data set is."""
    min_accuracy: Fraction
    """The least accuracy, for example "0.85"."""
    max_accuracy_drop: Fraction | None = None
    """The most accuracy may fall below the serving revision's."""
    min_macro_f1: Annotated[Fraction | None, Field(alias="minMacroF1")] = None
    """The least macro-averaged F1 score."""
    max_macro_f1_drop: Annotated[Fraction | None, Field(alias="maxMacroF1Drop")] = None
    """The most macro-averaged F1 may fall below the serving revision's."""
    max_ece: Annotated[Fraction | None, Field(alias="maxECE")] = None
    """The largest expected calibration error."""
    max_ece_increase: Annotated[Fraction | None, Field(alias="maxECEIncrease")] = None
    """The most the calibration error may rise above the serving revision's."""
    max_cases: Annotated[int, Field(ge=1, le=5000)] = 500
    """How many cases are used, from the first."""
    score_tolerance: Annotated[str, Field(max_length=_LONGEST_DECIMAL, pattern=r"^[0-9]+(\.[0-9]+)?$")] | None = None
    """How far a score may be off and still count as correct; "0.5" when unset."""
    statistics: Statistics | None = None
    """Compares the candidate with the serving revision statistically; unset, only the gates above decide."""

    @property
    def effective_score_tolerance(self) -> str:
        """The tolerance that applies, as a decimal text."""
        return self.score_tolerance or "0.5"


class Timeouts(ApiModel):
    """How long each stage of a rollout may take."""

    caching: Timeout | None = None
    """Downloading and verifying the model; 30m when unset."""
    starting: Timeout | None = None
    """Starting Pods until all are model-ready; 10m when unset."""
    evaluating: Timeout | None = None
    """Scoring the candidate; 10m when unset."""

    @property
    def caching_timeout(self) -> timedelta:
        """The deadline that applies to caching."""
        return parse_duration(self.caching or "30m")

    @property
    def starting_timeout(self) -> timedelta:
        """The deadline that applies to starting."""
        return parse_duration(self.starting or "10m")

    @property
    def evaluating_timeout(self) -> timedelta:
        """The deadline that applies to evaluating."""
        return parse_duration(self.evaluating or "10m")


class Rollout(ApiModel):
    """How a new revision takes over; changing it starts no rollout."""

    rules = (
        Rule(
            "!has(self.promotion) || self.promotion != 'EvaluationGated' || has(self.evaluation)",
            "promotion: EvaluationGated requires evaluation to be set",
            lambda self: self.promotion is not Promotion.EVALUATION_GATED or self.evaluation is not None,
        ),
        Rule(
            "!has(self.manualPromotion) || !self.manualPromotion || !has(self.promotion) || self.promotion == 'Manual'",
            "manualPromotion: true contradicts promotion; remove manualPromotion, which is deprecated",
            lambda self: not self.manual_promotion or self.promotion in {None, Promotion.MANUAL},
        ),
        Rule(
            "!has(self.strategy) || self.strategy != 'Recreate'"
            " || ((!has(self.promotion) || self.promotion != 'Manual')"
            " && (!has(self.manualPromotion) || !self.manualPromotion))",
            "strategy: Recreate cannot wait for manual promotion: the serving revision is stopped meanwhile",
            lambda self: self.strategy is not Strategy.RECREATE or not self.approval_required,
        ),
        Rule(
            "!has(self.strategy) || self.strategy != 'Recreate' || !has(self.evaluation)"
            " || !has(self.evaluation.statistics)",
            "strategy: Recreate leaves no serving revision to compare with; remove evaluation.statistics",
            lambda self: (
                self.strategy is not Strategy.RECREATE or self.evaluation is None or self.evaluation.statistics is None
            ),
        ),
    )

    strategy: Strategy | None = None
    """BlueGreen (also when unset) keeps the serving revision running, Recreate stops it first."""
    promotion: Promotion | None = None
    """What a ready candidate still needs; unset means EvaluationGated with an evaluation, else Automatic."""
    manual_promotion: bool = False
    """Deprecated: use promotion: Manual."""
    stabilization: StabilizationWindow = "5m"
    """How long a promoted revision is watched and rolled back if unhealthy; 0s disables it."""
    timeouts: Timeouts = Timeouts()
    """How long each stage may take."""
    evaluation: Evaluation | None = None
    """Scores every candidate on a golden data set before it may serve."""

    @property
    def effective_strategy(self) -> Strategy:
        """The strategy that applies."""
        return self.strategy or Strategy.BLUE_GREEN

    @property
    def effective_promotion(self) -> Promotion:
        """The promotion policy that applies."""
        if self.approval_required:
            return Promotion.MANUAL
        if self.promotion is not None:
            return self.promotion
        return Promotion.AUTOMATIC if self.evaluation is None else Promotion.EVALUATION_GATED

    @property
    def approval_required(self) -> bool:
        """Whether a person has to promote every revision but the first."""
        return self.manual_promotion or self.promotion is Promotion.MANUAL

    @property
    def stabilization_window(self) -> timedelta:
        """How long a promoted revision is watched; zero means not at all."""
        return parse_duration(self.stabilization)

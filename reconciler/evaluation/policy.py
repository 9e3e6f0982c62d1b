"""The gates of an evaluation as a frozen value, and what identifies them (spec sections 5.12 and 7.5). Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Self

from api.rollout import DatasetReference, Evaluation
from reconciler.evaluation.scores import SCORER_VERSION

_SEPARATOR: Final = "\x1f"
_POLICY_DIGITS: Final = 16
_APPROVAL_DIGITS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a candidate must reach. Thresholds are the decimal texts of the spec; None is a gate that is not set."""

    min_accuracy: str
    max_accuracy_drop: str | None = None
    max_ece: str | None = None
    max_ece_increase: str | None = None
    min_macro_f1: str | None = None
    max_macro_f1_drop: str | None = None
    dataset: str
    """`cm/<name>/<key>` or `secret/<name>/<key>`."""
    max_cases: int
    score_tolerance: str
    extra: tuple[str, ...] = ()
    """Texts `name=value` of further settings that an approval depends on; only those that are set."""

    @classmethod
    def of(cls, evaluation: Evaluation, extra: tuple[str, ...] = ()) -> Self:
        """The policy that a spec declares."""
        return cls(
            min_accuracy=evaluation.min_accuracy,
            max_accuracy_drop=evaluation.max_accuracy_drop,
            max_ece=evaluation.max_ece,
            max_ece_increase=evaluation.max_ece_increase,
            min_macro_f1=evaluation.min_macro_f1,
            max_macro_f1_drop=evaluation.max_macro_f1_drop,
            dataset=_reference(evaluation.dataset_ref),
            max_cases=evaluation.max_cases,
            score_tolerance=evaluation.effective_score_tolerance,
            extra=extra,
        )

    @property
    def is_relative(self) -> bool:
        """Whether a gate compares with the serving revision, which then has to be scored as well."""
        return any((self.max_accuracy_drop, self.max_ece_increase, self.max_macro_f1_drop))

    @property
    def tolerance(self) -> Fraction:
        """How far a score may be off where a case does not say, exactly."""
        return Fraction(self.score_tolerance)

    @property
    def hash(self) -> str:
        """16 hex digits that change with everything a verdict depends on but the data set's bytes (spec section 7.5).

        A gate that came later is part of it only when set, so that older policies keep their hash.
        """
        fields = (
            self.min_accuracy,
            self.max_accuracy_drop or "",
            self.max_ece or "",
            self.max_ece_increase or "",
            self.dataset,
            str(self.max_cases),
            self.score_tolerance,
            str(SCORER_VERSION),
        )
        later = (("minMacroF1", self.min_macro_f1), ("maxMacroF1Drop", self.max_macro_f1_drop))
        set_later = tuple(f"{name}={value}" for name, value in later if value is not None)
        return _hex(_SEPARATOR.join((*fields, *set_later, *self.extra)), _POLICY_DIGITS)


def approval_id(revision: str, policy_hash: str, dataset_digest: str) -> str:
    """What an approval must say: 12 hex digits that name a revision, its gates and its data set (spec section 5.12).

    The parts have a fixed length each, so they need no separator.
    """
    return _hex(revision + policy_hash + dataset_digest, _APPROVAL_DIGITS)


def _reference(dataset: DatasetReference) -> str:
    if dataset.config_map_ref is not None:
        return f"cm/{dataset.config_map_ref.name}/{dataset.config_map_ref.key}"
    if dataset.secret_ref is not None:
        return f"secret/{dataset.secret_ref.name}/{dataset.secret_ref.key}"
    raise ValueError("the API admits no data set reference that is empty")


def _hex(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]

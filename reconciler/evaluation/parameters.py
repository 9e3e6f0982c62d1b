"""What a comparison is of, and how sure its verdict must be. Pure, and without numpy."""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Literal

import msgspec

from api.rollout import Statistics
from reconciler.evaluation.alarms import MOST_RESAMPLES, RESAMPLES
from reconciler.evaluation.canonical import Strict, Text

RULES: Final = 2
"""The rules by which verdicts are found now; a policy's hash changes with them."""


class Inputs(Strict, frozen=True, kw_only=True):
    """What was compared, by digest."""

    dataset_digest: Text
    policy_hash: Text
    stable_digest: Text
    candidate_digest: Text
    scorer_version: Text

    @property
    def seed(self) -> int:
        """The seed of every random number: nobody can try seeds until one promotes. Below 2^48, exact in any JSON."""
        texts = (
            self.dataset_digest,
            self.policy_hash,
            self.stable_digest,
            self.candidate_digest,
            self.scorer_version,
        )
        return int.from_bytes(hashlib.sha256("\x1f".join(texts).encode()).digest()[:6])


class Parameters(Strict, frozen=True, kw_only=True):
    """How sure a verdict must be, and of what."""

    confidence: Annotated[float, msgspec.Meta(gt=0.5, lt=1)]
    margin: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    min_items_per_label: Annotated[int, msgspec.Meta(ge=1, le=5000)]
    seed: Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]
    resamples: Annotated[int, msgspec.Meta(ge=100, le=MOST_RESAMPLES)] = RESAMPLES
    rules: Literal[2] | msgspec.UnsetType = msgspec.UNSET
    """2: harm that shows, but that no alarm could prove, is undecided, and sums may be off by what rounding explains.
    Unset in older evidence, whose rules let the one pass and refused the other."""

    @property
    def follows_newest_rules(self) -> bool:
        """Whether the verdict is found by the rules of now."""
        return self.rules is not msgspec.UNSET


def policy_settings(statistics: Statistics) -> tuple[str, ...]:
    """What a policy's hash says of the statistics: all that a verdict depends on, so not what follows it."""
    return (
        f"statistics={statistics.method.value}",
        f"confidence={statistics.confidence}",
        f"nonInferiorityMargin={statistics.non_inferiority_margin}",
        f"minItemsPerLabel={statistics.min_items_per_label}",
        f"rules={RULES}",
    )


def declared_parameters(statistics: Statistics, seed: int) -> Parameters:
    """The parameters that a DecisionModel asks for."""
    return Parameters(
        confidence=float(statistics.confidence),
        margin=float(statistics.non_inferiority_margin),
        min_items_per_label=statistics.min_items_per_label,
        seed=seed,
        rules=RULES,
    )

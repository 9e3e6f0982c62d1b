"""How often the statistical gate errs, by simulation: the tables of docs/evaluation.md.

`python -m tools.bench.gate` prints them. Every number follows from the seeds here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reconciler.evaluation.judgement import judge
from reconciler.evaluation.paired_accuracy import PairedCounts, normal_quantile, score_statistic
from reconciler.evaluation.parameters import Parameters
from reconciler.evaluation.stored_table import PRECISIONS, store
from reconciler.evaluation.table import Item, QuestionKind
from reconciler.evaluation.verdict import Decision

SIZES: Final = (200, 500, 1000)
MARGIN: Final = 0.02
CONFIDENCE: Final = 0.95
RUNS: Final = 20_000
WHOLE_RUNS: Final = 200
_ACCURACY: Final = 0.9
_DISCORDANCE: Final = 0.08
_DISCORDANCES: Final = (0.04, 0.08, 0.12)
_LABELS: Final = tuple("abcde")
# How much evidence for the right label stands against how much noise on each of them: right in about 0.88 of all items.
_SIGNAL: Final = 2.6
_OWN_NOISE: Final = 0.3
_NOISE: Final = 1 + _OWN_NOISE**2

Counts = NDArray[np.int64]
"""Runs by (both right, fixes, breaks, both wrong)."""
Proof = Callable[[Counts, float], NDArray[np.bool_]]
"""Which runs prove, at the confidence, that the true difference is above the given one."""


def draw(items: int, difference: float, discordance: float, seed: int) -> Counts:
    """The outcomes of many runs on so many items."""
    fixes, breaks = (discordance + difference) / 2, (discordance - difference) / 2
    rates = [_ACCURACY - breaks, fixes, breaks, 1 - _ACCURACY - fixes]
    return np.random.default_rng(seed).multinomial(items, rates, size=RUNS)


def tango(counts: Counts, supposed: float) -> NDArray[np.bool_]:
    """By the score interval, which is the gate's."""
    reach, items = normal_quantile(CONFIDENCE), int(counts[0].sum())
    distinct, position = np.unique(counts[:, 1:3], axis=0, return_inverse=True)
    statistics = [score_statistic(PairedCounts(items, *pair), supposed) for pair in distinct.tolist()]
    proven: NDArray[np.bool_] = np.array(statistics)[position] > reach
    return proven


def newcombe(counts: Counts, supposed: float) -> NDArray[np.bool_]:
    """By the square-and-add interval: Newcombe, Statistics in Medicine 17 (1998), 2635-2650, method 10."""
    both, fixes, breaks, neither = counts.T
    items = counts.sum(axis=1)
    candidate, stable = (both + fixes) / items, (both + breaks) / items
    below, above = candidate - _wilson(candidate, items)[0], _wilson(stable, items)[1] - stable
    product = both * neither - fixes * breaks
    corrected = np.where(product > 0, np.maximum(product - items / 2, 0), product)
    scale = np.sqrt(1.0 * (both + fixes) * (breaks + neither) * (both + breaks) * (fixes + neither))
    correlation = np.divide(corrected, scale, out=np.zeros_like(scale), where=scale > 0)
    reach = np.sqrt(np.maximum(0, below**2 - 2 * correlation * below * above + above**2))
    proven: NDArray[np.bool_] = candidate - stable - reach > supposed
    return proven


def _wilson(share: NDArray[np.float64], items: Counts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    square = normal_quantile(CONFIDENCE) ** 2
    middle = (share + square / (2 * items)) / (1 + square / items)
    reach = np.sqrt(square * (share * (1 - share) / items + square / (4 * items**2))) / (1 + square / items)
    return middle - reach, middle + reach


def naive(counts: Counts, supposed: float) -> NDArray[np.bool_]:
    """By looking at the numbers: the candidate was at least as good as the stable, whatever is supposed."""
    del supposed
    at_least: NDArray[np.bool_] = counts[:, 1] >= counts[:, 2]
    return at_least


def _mirrored(counts: Counts) -> Counts:
    return counts[:, [0, 2, 1, 3]]


def rates_table() -> list[str]:
    """How often candidates that are as good, and worse by the margin, are promoted and rejected on accuracy alone."""
    head = "| Items | Candidate | Promoted | Undecided | Rejected | Naive gate promotes |"
    return [head, "|--:|---|--:|--:|--:|--:|", *(_rates(*each) for each in _truths())]


def _truths() -> Iterator[tuple[int, str, float]]:
    for items in SIZES:
        yield items, "as good", 0.0
        yield items, "worse by the margin", -MARGIN


def _rates(items: int, name: str, difference: float) -> str:
    counts = draw(items, difference, _DISCORDANCE, seed=items)
    promoted, rejected = tango(counts, -MARGIN).mean(), tango(_mirrored(counts), MARGIN).mean()
    undecided = 1 - promoted - rejected
    cells = (promoted, undecided, rejected, naive(counts, -MARGIN).mean())
    return f"| {items} | {name} | {' | '.join(f'{cell:.1%}' for cell in cells)} |"


def coverage_table() -> list[str]:
    """How often each interval's lower end is above the truth, which at this confidence should be 5 %."""
    head = ["| Items | Tango, least to most | Newcombe, least to most |", "|--:|--:|--:|"]
    return [*head, *(f"| {items} | {_spread(tango, items)} | {_spread(newcombe, items)} |" for items in SIZES)]


def _spread(proof: Proof, items: int) -> str:
    misses = [
        proof(draw(items, difference, discordance, seed=items), difference).mean()
        for discordance in _DISCORDANCES
        for difference in (0.0, -MARGIN)
    ]
    return f"{min(misses):.1%} to {max(misses):.1%}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kind of candidate; the stable has the defaults, with which it is as sure of itself as it should be.

    Attributes:
        name: For the table.
        signal: How much evidence for the right label it sees.
        sharpness: What its logits are multiplied by.
        spoilt: How much less it sees where the first label is right.
    """

    name: str
    signal: float = _SIGNAL
    sharpness: float = 1.0
    spoilt: float = 0.0


CANDIDATES: Final = (
    Candidate("as good"),
    Candidate("much worse", signal=2.0),
    Candidate("twice as sure of itself", sharpness=2.0),
    Candidate("sacrifices one label", spoilt=1.0),
)


def whole_gate(candidate: Candidate, items: int, runs: Iterable[int]) -> list[Decision]:
    """What the gate with all its guardrails decides in the given runs; a run's number is its seed."""
    return [_decide(candidate, items, run) for run in runs]


def whole_table() -> list[str]:
    """How often the gate with all its guardrails promotes and rejects."""
    head = ["| Items | Candidate | Promoted | Undecided | Rejected |", "|--:|---|--:|--:|--:|"]
    return [*head, *(_whole(candidate, items) for items in SIZES for candidate in CANDIDATES)]


def _whole(candidate: Candidate, items: int) -> str:
    decided = whole_gate(candidate, items, range(WHOLE_RUNS))
    kinds = (Decision.PROMOTE, Decision.UNDECIDED, Decision.REJECT)
    return f"| {items} | {candidate.name} | {' | '.join(f'{decided.count(kind) / WHOLE_RUNS:.0%}' for kind in kinds)} |"


def _decide(candidate: Candidate, items: int, run: int) -> Decision:
    random = np.random.default_rng(run)
    right = np.arange(items) % len(_LABELS)
    # What both see alike: most of an item's difficulty is its own.
    shared = random.normal(size=(items, len(_LABELS)))
    answer = partial(_answers, right=right, shared=shared, random=random)
    stable, challenger = (store(answer(each), PRECISIONS[0]) for each in (Candidate("stable"), candidate))
    parameters = Parameters(confidence=CONFIDENCE, margin=MARGIN, min_items_per_label=20, seed=run, resamples=1000)
    return judge(stable, challenger, parameters, PRECISIONS[0]).decision


def _answers(
    model: Candidate, *, right: NDArray[np.int64], shared: NDArray[np.float64], random: np.random.Generator
) -> list[Item]:
    logits = shared + _OWN_NOISE * random.normal(size=shared.shape)
    logits[np.arange(len(right)), right] += model.signal - model.spoilt * (right == 0)
    # With normal noise, the signal over its variance times what is seen is the true log-likelihood.
    weights = np.exp(model.sharpness * _SIGNAL / _NOISE * (logits - logits.max(axis=1, keepdims=True)))
    shares = weights / weights.sum(axis=1, keepdims=True)
    return [
        _item(line, int(label), row) for line, (label, row) in enumerate(zip(right, shares.tolist(), strict=True), 1)
    ]


def _item(line: int, right: int, shares: Sequence[float]) -> Item:
    chosen = max(range(len(shares)), key=shares.__getitem__)
    return Item(
        line=line,
        question="label",
        kind=QuestionKind.CHOICE,
        expected=_LABELS[right],
        predicted=_LABELS[chosen],
        correct=chosen == right,
        confidence=shares[chosen],
        calibration_correct=chosen == right,
        probabilities=dict(zip(_LABELS, shares, strict=True)),
    )


def main() -> None:
    """Print every table."""
    for table in (rates_table, coverage_table, whole_table):
        print(f"{table.__name__}\n", *table(), sep="\n", end="\n\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

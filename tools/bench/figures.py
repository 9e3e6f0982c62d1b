"""From measured seconds to tables. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Where measured seconds lie."""

    minimum: float
    median: float
    maximum: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """Return the spread of at least one measurement."""
        return cls(minimum=min(seconds), median=statistics.median(seconds), maximum=max(seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The same thing done in two ways, alternately and equally often.

    Attributes:
        title: What was done.
        ours: Name of this project's way, and the seconds each round took.
        theirs: The same of the other way.
    """

    title: str
    ours: tuple[str, tuple[float, ...]]
    theirs: tuple[str, tuple[float, ...]]

    @property
    def ratio(self) -> float:
        """Our median over theirs; below 1 where ours is faster."""
        return statistics.median(self.ours[1]) / statistics.median(self.theirs[1])

    def as_json(self) -> dict[str, object]:
        """Return everything as JSON values, each measurement included."""
        return {
            "title": self.title,
            "ratioOfMedians": round(self.ratio, 3),
            "ways": {name: _spread_json(seconds) for name, seconds in (self.ours, self.theirs)},
        }


def _spread_json(seconds: tuple[float, ...]) -> dict[str, object]:
    spread = Spread.of(seconds)
    return {
        "minimum": round(spread.minimum, 3),
        "median": round(spread.median, 3),
        "maximum": round(spread.maximum, 3),
        "seconds": [round(each, 3) for each in seconds],
    }


def comparison_table(comparisons: Sequence[Comparison]) -> str:
    """Return one line for each way of each comparison, with the ratio beside ours."""
    rows: list[tuple[str, ...]] = [("", "rounds", "min", "median", "max", "ratio")]
    for comparison in comparisons:
        for name, seconds in (comparison.ours, comparison.theirs):
            spread = Spread.of(seconds)
            figures = (f"{each:.2f} s" for each in (spread.minimum, spread.median, spread.maximum))
            ratio = f"{comparison.ratio:.2f}" if name == comparison.ours[0] else ""
            rows.append((f"{comparison.title}: {name}", str(len(seconds)), *figures, ratio))
    return _aligned(rows)


def spread_table(ways: Mapping[str, Sequence[float]]) -> str:
    """Return one line for each way, with the spread of its seconds."""
    rows: list[tuple[str, ...]] = [("", "rounds", "min", "median", "max")]
    for name, seconds in ways.items():
        spread = Spread.of(seconds)
        figures = (f"{each:.2f} s" for each in (spread.minimum, spread.median, spread.maximum))
        rows.append((name, str(len(seconds)), *figures))
    return _aligned(rows)


def shares_table(steps: Sequence[str], ways: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Return the median seconds of every step, and its share of the whole, one column for each way.

    Args:
        steps: Names of the steps, in order.
        ways: For each way, the seconds by step of each round.
    """
    medians = {way: median_steps(steps, rounds) for way, rounds in ways.items()}
    rows: list[tuple[str, ...]] = [("", *medians)]
    for step in steps:
        cells = (f"{of[step]:.2f} s {of[step] / sum(of.values()):4.0%}" for of in medians.values())
        rows.append((step, *cells))
    return _aligned(rows)


def median_steps(steps: Sequence[str], rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return each step's median over the rounds."""
    return {step: statistics.median(each[step] for each in rounds) for step in steps}


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (width for width in widths)
    cells = [row[0].ljust(first), *(cell.rjust(width) for cell, width in zip(row[1:], others, strict=True))]
    return "  ".join(cells).rstrip()

"""Many alarms at once: keeping the probability of any false one at the stated level. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down adjustment (Scandinavian Journal of Statistics 6 (1979), 65-70), in the order given.

    Comparing each with a level keeps the probability of any false alarm among them at that level, dependent or not.
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)

"""McNemar's test: whether two revisions' disagreements about correctness are more lopsided than a fair coin's.

Imports scipy, so only the worker process that judges a run may import it. `fixes` are items that only the candidate
answers correctly, `breaks` those that only the stable does.
"""

from __future__ import annotations

from scipy.special import bdtr


def drop_p_value(fixes: int, breaks: int) -> float:
    """The exact test of no drop against a drop, one-sided: it keeps its level at any number of items."""
    # So many breaks or more are so few fixes or fewer.
    return _at_most(fixes, fixes + breaks)


def change_p_values(fixes: int, breaks: int) -> tuple[float, float]:
    """The test of no change, two-sided: the exact p-value, and the less cautious mid-p one."""
    fewer, disagreements = min(fixes, breaks), fixes + breaks
    tail = _at_most(fewer, disagreements)
    beyond = _at_most(fewer - 1, disagreements) if fewer else 0.0
    return min(1.0, 2 * tail), min(1.0, tail + beyond)


def _at_most(heads: int, tosses: int) -> float:
    return float(bdtr(heads, tosses, 0.5))

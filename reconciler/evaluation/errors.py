"""Everything that can keep a revision from being scored, as one closed tree of exceptions.

No message carries a state, an answer or a key.
"""

# ruff: noqa: N818 - the names are the reasons that users know from conditions.

from __future__ import annotations


class EvaluationError(Exception):
    """Base of every error that this package raises."""


class DatasetInvalid(EvaluationError):
    """The data set cannot be read (spec section 7.1); only another data set helps.

    Args:
        what: What is wrong, for people.
        line: The line it is wrong on, from 1; None when it is about the data set as a whole.
    """

    def __init__(self, what: str, *, line: int | None = None) -> None:
        super().__init__(what if line is None else f"line {line}: {what}")
        self.line = line


class RunError(EvaluationError):
    """A run ended without scores (spec section 7.2)."""


class CaseRejected(RunError):
    """The runtime refuses a case for good; the data set has to change, or what is asked of the model.

    Args:
        what: How the runtime refused it.
        line: The case's line, from 1.
    """

    def __init__(self, what: str, *, line: int) -> None:
        super().__init__(f"line {line}: the runtime refuses this case: {what}")
        self.line = line


class RunInvalid(RunError):
    """The Pod could not be asked; nothing is known about its revision, and a later run may succeed."""

"""One transition of the whole."""

from __future__ import annotations

from typing import NamedTuple

from tools.model_checker.state import State
from tools.model_checker.violation import Violation


class Step(NamedTuple):
    """What happens, and the state it leads to.

    Attributes:
        label: What happens, for a person.
        state: The state afterwards.
        disturbs: Whether it counts as a disturbance; ordinary progress does not.
        violation: The property that the step itself breaks, if it does.
    """

    label: str
    state: State
    disturbs: bool = False
    violation: Violation | None = None

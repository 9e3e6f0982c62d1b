"""What keeps the platform from acting on the spec as it stands, until a person mends it (spec section 5.4)."""

from __future__ import annotations

from enum import StrEnum


class Obstacle(StrEnum):
    """What a person has to mend; neither may touch what serves."""

    NONE = "nothing in its way"
    KEY = "a key that cannot be read"
    """A refusal of steps 9, 10, 14 and 15: the rollout goes no further."""
    MODEL = "a model that is not allowed"
    """A refusal of step 7: the rollout is given up."""

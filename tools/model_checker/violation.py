"""The properties by name, and how one is reported broken."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Property(StrEnum):
    """What is checked."""

    TRAFFIC = "traffic"
    """The Service selects only what was promoted with proof, what the persisted status names, and what has Pods."""
    PROOF = "proof"
    """A revision is promoted only when all Pods of its Deployment were ready."""
    APPROVAL = "approval"
    """With manual promotion only what a person approved as it was measured is promoted."""
    SCORING = "scoring"
    """With an evaluation only what passed on the data set of right now is promoted."""
    SLOT = "slot"
    """No rollout begins while another DecisionModel has the only slot."""
    ROOM = "room"
    """No Pods are started while those that have to stop for them are there, and none wait for what runs no more."""
    BLAME = "blame"
    """A promoted revision is taken back for good only when its own Pods speak against it."""
    TELLING = "telling"
    """There is exactly one `Promoted` Event for each persisted promotion."""
    SELECTED = "selected"
    """Nothing that the live Service selects is dropped."""
    STABLE = "stable"
    """The stable revision's store and Deployment are never removed."""
    STORE = "store"
    """No Pods are started on a store without files, and those that do not answer give way to what fills it."""
    CANDIDATE = "candidate"
    """What a candidate has come to on a filled store is kept while it goes on."""
    REST = "rest"
    """A run that nobody disturbs any more comes to rest, with traffic on the stable, or where that has no Pods on what
    stands in for it."""
    LEFTOVERS = "leftovers"
    """At rest nothing is left but what serves and what waits for approval."""


class Violation(NamedTuple):
    """A broken property."""

    broken: Property
    message: str

    def __str__(self) -> str:
        return f"{self.broken}: {self.message}"

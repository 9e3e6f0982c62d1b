"""A model checker for the rollout state machine.

The real `decide` runs against an abstract cluster, engine and clock. Every interleaving of ordinary progress is
explored, with up to a given number of disturbances (edits, crashes, failures, lost watches …) in any place, and every
state is checked against the properties in `properties` and `rest`.
"""

from tools.model_checker.search import Report, Scope, Start, check
from tools.model_checker.violation import Property

__all__ = ["Property", "Report", "Scope", "Start", "check"]

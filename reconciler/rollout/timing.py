"""Constants of the state machine, in seconds where they are numbers (spec section 5.2)."""

from datetime import timedelta

RECHECK_READY = 60.0
"""Re-check of a complete DecisionModel and re-inspection of its gates."""
RECHECK_PROGRESS = 10.0
"""Waiting for a Job or for Pods; watch events usually come first."""
RECHECK_NEW_SPEC = 2.0
"""After the first look at a spec; what it changes beside the revision is with the engine by then."""
RECHECK_CONFLICT = 30.0
RECHECK_TERMINATING_STORE = 5.0
RECHECK_LOST_STORE = 5.0
RECHECK_QUEUED = 10.0
RECHECK_REFUSED = 60.0
RECHECK_HELD = 60.0
"""Looking again at a data set that cannot be used, or at a candidate that waits for approval."""
PROMOTION_GRACE = 30.0
"""How long the old revision is kept at least, and the re-check after a promotion."""
RETELLING = timedelta(minutes=10)
"""How far back a starting process tells promotions again; Events outlive that on every cluster."""
UNHEALTHY_DEBOUNCE = 30.0
"""How long a promoted revision may be short of Pods before it is rolled back (spec section 5.9)."""

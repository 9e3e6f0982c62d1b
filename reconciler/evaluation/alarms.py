"""What it takes for an alarm to be able to fire: items of a label, and resamples. Pure, and without numpy.

The alarms of a comparison share one level (Holm's correction), and none of their p-values can be arbitrarily small: so
few items, or so few resamples, may be that even the worst harm stays above the level. Such an alarm is blind.
"""

from __future__ import annotations

import math
from typing import Final

RESAMPLES: Final = 4000
"""Bootstrap resamples where no more are needed: their least p-value is below 5 % shared by two hundred alarms."""
MOST_RESAMPLES: Final = 2_000_000
"""What is computed at most; a hundred alarms at a confidence of 0.9999 need as many."""
# Resamples times cases. A core draws 25 to 45 million a second, and there are two scores: half a minute at most.
_MOST_DRAWS: Final = 400_000_000
# At the bare minimum of resamples a single one without a rise would silence the alarm.
_ROOM: Final = 2


def resamples_for(alarms: int, confidence: float, cases: int) -> int:
    """Resamples that let a score's alarm fire among so many, as far as they are affordable with so many cases."""
    return min(max(RESAMPLES, _ROOM * _needed(alarms, confidence)), affordable_resamples(cases))


def affordable_resamples(cases: int) -> int:
    """The most resamples that are drawn from so many cases."""
    return max(RESAMPLES, min(MOST_RESAMPLES, _MOST_DRAWS // max(1, cases)))


def is_blind(resamples: int, alarms: int, confidence: float) -> bool:
    """Whether a score's alarm cannot fire after so many resamples, whatever they show."""
    return resamples + 1 < _needed(alarms, confidence)


def disagreements_to_prove(alarms: int, confidence: float) -> int:
    """Breaks without a fix at which chance is no explanation any more; a label with fewer items cannot be judged."""
    return math.ceil(math.log2(alarms / (1 - confidence)))


def _needed(alarms: int, confidence: float) -> int:
    return math.ceil(alarms / (1 - confidence))

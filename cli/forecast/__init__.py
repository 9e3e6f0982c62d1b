"""What would happen to a DecisionModel if a manifest were applied: the reconciler's own decisions, rehearsed. Pure.

Nothing here knows a rule of rollouts. The functions of `reconciler.controller` say which revision is wanted,
`reconciler.rollout.decide` decides pass after pass over imagined facts, and `components` renders and compares.
"""

from cli.forecast.forecast import Forecast, Outcome, Refused, forecast
from cli.forecast.situation import Situation

__all__ = ["Forecast", "Outcome", "Refused", "Situation", "forecast"]

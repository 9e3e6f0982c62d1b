"""Golden data sets: reading them, asking a runtime, scoring its answers, and judging a candidate by the scores.

Pure but for `execution`, which asks one Pod. The state machine knows nothing of this package: it gets the outcome as a
fact.
"""

"""A golden data set that the stand-in's models answer with the accuracy and calibration they are published with."""

from __future__ import annotations

import json
from random import Random
from typing import Any

DEPARTMENTS = {
    "billing": "invoice payment refund charge subscription receipt",
    "technical": "crash error login bug timeout reinstall",
    "shipping": "parcel delivery courier tracking address customs",
    "sales": "quote discount contract upgrade license trial",
}
QUESTION = {"type": "choice", "criteria": DEPARTMENTS}


def golden(cases: int, *, seed: int = 0) -> str:
    """Return JSON Lines: each state names three words of one department, and that department is expected."""
    random = Random(seed)  # noqa: S311 - a repeatable choice of words
    return "\n".join(json.dumps(_case(random, number)) for number in range(cases))


def _case(random: Random, number: int) -> dict[str, Any]:
    label = random.choice(list(DEPARTMENTS))
    words = random.sample(DEPARTMENTS[label].split(), 1)
    state = f"case {number}: about {' and '.join(words)}, please"
    return {"state": state, "questions": {"department": QUESTION}, "expected": {"department": label}}

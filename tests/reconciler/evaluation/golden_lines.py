"""Lines of golden data sets."""

from __future__ import annotations

import json
from typing import Any

CRITERIA = {"billing": "money", "tech": None, "other": "rest"}
TEAM: dict[str, Any] = {"type": "choice", "criteria": CRITERIA}
REFUND: dict[str, Any] = {"type": "noul"}
URGENCY: dict[str, Any] = {"type": "score", "criteria": ["low", "normal", "high"]}
QUESTIONS: dict[str, Any] = {"team": TEAM, "refund": REFUND, "urgency": URGENCY}
EXPECTED: dict[str, Any] = {"team": "billing", "refund": True, "urgency": 2}


def line(**members: Any) -> bytes:
    """A valid line with some members exchanged; one that is ... is left out."""
    whole = {"state": "charged twice", "questions": QUESTIONS, "expected": EXPECTED, **members}
    return json.dumps({key: value for key, value in whole.items() if value is not ...}).encode()


def lines(*texts: bytes) -> bytes:
    return b"\n".join(texts)

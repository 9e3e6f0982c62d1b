"""`dmctl gate plan` in words and as JSON."""

from __future__ import annotations

import json
from typing import Any

from reconciler.evaluation.planner import Aim, Detectable, Plan


def plan_text(aim: Aim, plan: Plan) -> str:
    """Return how many items are needed."""
    return f"{plan.text}\n{_supposed(aim)}"


def detectable_text(aim: Aim, found: Detectable) -> str:
    """Return what so many items can tell."""
    return f"{found.text}\n{_supposed(aim)}"


def plan_json(aim: Aim, plan: Plan) -> str:
    """Return the same as one JSON object."""
    return json.dumps({**_aim(aim), "items": plan.items, "text": plan.text}, indent=2)


def detectable_json(aim: Aim, items: int, found: Detectable) -> str:
    """Return the same as one JSON object."""
    told = {"items": items, "promotes": found.promotes, "drop": found.drop, "text": found.text}
    return json.dumps({**_aim(aim), **told}, indent=2)


def _aim(aim: Aim) -> dict[str, Any]:
    return {"margin": aim.margin, "confidence": aim.confidence, "discordance": aim.discordance, "power": aim.power}


def _supposed(aim: Aim) -> str:
    return (
        f"supposed: {100 * aim.discordance:g} % of the items are answered correctly by only one of both revisions;"
        f" {100 * aim.margin:g} points worse count as no worse; verdicts hold with {100 * aim.confidence:g} %"
    )

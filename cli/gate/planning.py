"""`dmctl gate plan` in words and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

from reconciler.evaluation.planner import Aim, Detectable, Plan, blind_scores, label_items


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarms:
    """What the guardrails can prove.

    Attributes:
        items_per_label: The fewest items of a label by which the loss of its recall could be proven.
        blind: Why no rise of log-loss or Brier score could be; empty if some could.
    """

    items_per_label: int
    blind: str

    @classmethod
    def of(cls, confidence: float, items: int, labels: int) -> Self:
        """Return those of so many items and labels."""
        return cls(
            items_per_label=label_items(confidence, labels) if labels else 0,
            blind=blind_scores(confidence, items, labels),
        )

    def lines(self) -> tuple[str, ...]:
        """Return the same in words; nothing without labels where all can fire."""
        told = f"a label needs {self.items_per_label} items for its loss to be proven" if self.items_per_label else ""
        return tuple(filter(None, (told, self.blind and f"cannot fire: {self.blind}")))


def plan_text(aim: Aim, plan: Plan, alarms: Alarms) -> str:
    """Return how many items are needed."""
    return "\n".join((plan.text, *alarms.lines(), _supposed(aim)))


def detectable_text(aim: Aim, found: Detectable, alarms: Alarms) -> str:
    """Return what so many items can tell."""
    return "\n".join((found.text, *alarms.lines(), _supposed(aim)))


def plan_json(aim: Aim, plan: Plan, alarms: Alarms) -> str:
    """Return the same as one JSON object."""
    return json.dumps({**_aim(aim), "items": plan.items, "text": plan.text, **_alarms(alarms)}, indent=2)


def detectable_json(aim: Aim, items: int, found: Detectable, alarms: Alarms) -> str:
    """Return the same as one JSON object."""
    told = {"items": items, "promotes": found.promotes, "drop": found.drop, "text": found.text}
    return json.dumps({**_aim(aim), **told, **_alarms(alarms)}, indent=2)


def _aim(aim: Aim) -> dict[str, Any]:
    return {"margin": aim.margin, "confidence": aim.confidence, "discordance": aim.discordance, "power": aim.power}


def _alarms(alarms: Alarms) -> dict[str, Any]:
    return {"itemsPerLabel": alarms.items_per_label or None, "blind": alarms.blind or None}


def _supposed(aim: Aim) -> str:
    return (
        f"supposed: {100 * aim.discordance:g} % of the items are answered correctly by only one of both revisions;"
        f" {100 * aim.margin:g} points worse count as no worse; verdicts hold with {100 * aim.confidence:g} %"
    )

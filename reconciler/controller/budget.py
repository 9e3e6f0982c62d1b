"""Which rollouts may begin when their number is limited (spec section 5.11).

Every pass runs in one event loop and `admit` never waits, so two passes cannot both take the last slot. The watch cache
is current enough for it: the reconciler's own status writes enter it at once, and a reservation covers the time until
then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import ValidationError

from api.conditions import ConditionType, Phase, Reason
from api.decisionmodel import DecisionModel
from reconciler.controller.line_metrics import Line
from reconciler.kernel.resources import KubernetesObject, ObjectKey, object_key

_LAST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One DecisionModel as the budget sees it."""

    key: ObjectKey
    active: bool
    """It is rolling out, or watches what it has just promoted; not while only a person is waited for."""
    waiting_since: datetime | None
    """When it began to wait for a slot; None when it does not."""


class RolloutBudget:
    """Grants slots to namespaces in turn, and reserves them until the candidate is persisted.

    Ahead in the line is whose namespace has fewer slots, had fewer while it waited, and has fewer ahead in the line;
    among equals, who came first.

    Args:
        limit: How many rollouts may be under way at once; 0 for any number.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._reserved: dict[ObjectKey, str] = {}
        self._left_out: set[ObjectKey] = set()
        self._turns: dict[str, int] = {}
        """Slots that were granted to each namespace of the line; who comes anew starts level with the others."""

    def admit(self, key: ObjectKey, revision: str, models: Iterable[KubernetesObject], now: datetime) -> bool:
        """Reserve a slot for the rollout of `revision` if there is one for it.

        Args:
            key: The DecisionModel that asks.
            revision: What it would roll out.
            models: All DecisionModels in the watched scope, as API objects.
            now: The time, to tell which stabilization windows are over.
        """
        # Whoever asks has been read.
        self._left_out.discard(key)
        counted = (obj for obj in models if object_key(obj) not in self._left_out)
        if key not in self._reserved:
            if not self._is_free(key, [standing(obj, now) for obj in counted]):
                return False
            self._turns[key.namespace] += 1
        self._reserved[key] = revision
        return True

    def release(self, key: ObjectKey) -> None:
        """Give a reservation back: the status says it now, the rollout is off, or the DecisionModel is gone."""
        self._reserved.pop(key, None)
        self._left_out.discard(key)

    def line(self, models: Iterable[KubernetesObject], now: datetime) -> Line:
        """Return who rolls out, and who waits for how long; nobody where there is no limit."""
        if self.limit == 0:
            return Line()
        standings = [standing(obj, now) for obj in models if object_key(obj) not in self._left_out]
        held = {each.key for each in standings if each.active} | self._reserved.keys()
        since: dict[str, list[float]] = {}
        for each in standings:
            if each.waiting_since is not None and each.key not in held:
                since.setdefault(each.key.namespace, []).append((now - each.waiting_since).total_seconds())
        return Line(
            held=Counter(key.namespace for key in held),
            waiting={namespace: (len(waits), max(waits)) for namespace, waits in since.items()},
        )

    def leave_out(self, key: ObjectKey) -> None:
        """Count a DecisionModel no more that does not fit the declared API: what it has begun does not end."""
        self.release(key)
        self._left_out.add(key)

    def _is_free(self, key: ObjectKey, standings: Iterable[Standing]) -> bool:
        others = {each.key: each for each in standings}
        asking = others.pop(key, None)
        since = asking.waiting_since if asking is not None and asking.waiting_since else _LAST
        taken = {each.key for each in others.values() if each.active} | (self._reserved.keys() - {key})
        waiting = [
            (each.waiting_since, each.key)
            for each in others.values()
            if each.waiting_since is not None and each.key not in taken
        ]
        waiting.append((since, key))
        self._follow({each.namespace for each in (*taken, *(each for _, each in waiting))})
        line = _in_turn(waiting, Counter(each.namespace for each in taken) + Counter(self._turns))
        return len(taken) + line.index(key) < self.limit

    def _follow(self, namespaces: Collection[str]) -> None:
        """Remember the turns of those namespaces alone: they hold slots or wait for one."""
        level = min((self._turns[each] for each in namespaces if each in self._turns), default=0)
        self._turns = {each: self._turns.get(each, level) for each in namespaces}


def _in_turn(waiting: Iterable[tuple[datetime, ObjectKey]], before: Counter[str]) -> list[ObjectKey]:
    """Return the line: each namespace in turn, those that had the fewest slots first."""
    places = []
    for since, key in sorted(waiting):
        places.append((before[key.namespace], since, key))
        before[key.namespace] += 1
    return [key for *_, key in sorted(places)]


def standing(obj: KubernetesObject, now: datetime) -> Standing:
    """Return where a DecisionModel stands; it is parsed in full only where its window has to be known."""
    status = obj.get("status") or {}
    if obj["metadata"].get("deletionTimestamp"):
        # Nothing is done for it any more, however long somebody's finalizer keeps it.
        return Standing(key=object_key(obj), active=False, waiting_since=None)
    return Standing(
        key=object_key(obj),
        active=_rolls_out(status) or ("previousRevision" in status and _in_window(obj, now)),
        waiting_since=_waiting_since(status),
    )


def _rolls_out(status: KubernetesObject) -> bool:
    # A candidate that was proved does nothing for as long as people take; to promote it takes a moment.
    return "candidateRevision" in status and _reasons(status).get(ConditionType.PROMOTED) != Reason.PROMOTION_PENDING


def _in_window(obj: KubernetesObject, now: datetime) -> bool:
    try:
        model = DecisionModel.model_validate(obj)
    except ValidationError:
        return False
    previous = model.status.previous_revision
    return previous is not None and now < previous.promoted_at + model.spec.rollout.stabilization_window


def _waiting_since(status: KubernetesObject) -> datetime | None:
    since, reason = status.get("phaseTransitionTime"), _reasons(status).get(ConditionType.READY)
    if status.get("phase") != Phase.PENDING or reason != Reason.ROLLOUT_QUEUED or not since:
        return None
    return datetime.fromisoformat(since)


def _reasons(status: KubernetesObject) -> dict[str, str]:
    return {each["type"]: each["reason"] for each in status.get("conditions") or ()}

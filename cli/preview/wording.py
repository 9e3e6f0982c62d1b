"""A preview in words: what the text and the Markdown report say alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from api.keys import SPEC_HASH_ANNOTATION
from api.status import RevisionStatus
from cli.errors import ExitCode
from cli.forecast import Forecast, Outcome
from cli.forecast.forecast import Restart
from cli.forecast.gate import Gate
from cli.forecast.needs import Needs, NeedsOverTime
from cli.forecast.objects import Action
from cli.forecast.worst_case import Impact, WorstCase
from cli.gate.suppositions import DISCORDANCE
from cli.preview.reading import ModelPreview

WORDS: Final[Mapping[Outcome, str]] = {
    Outcome.NOTHING: "nothing to do",
    Outcome.IN_PLACE: "in place",
    Outcome.NEW_REVISION: "new revision",
    Outcome.REFUSED: "refused",
    Outcome.ERROR: "cannot be told",
}
UNKNOWN: Final = "unknown"
_SIGNS: Final[Mapping[Action, str]] = {Action.CREATE: "+", Action.CHANGE: "~", Action.DELETE: "-"}
_LONGEST_VALUE: Final = 80
_SHORT_DIGEST: Final = 12
_RESTARTS: Final[Mapping[Restart, str]] = {
    Restart.ROLLING: "replaced one after the other",
    Restart.OUTAGE: "all stopped before the first new one starts: nothing answers meanwhile, and no deadline guards it",
}
_IMPACTS: Final[Mapping[Impact, str]] = {
    Impact.UNTOUCHED: "the serving revision answers all the time",
    Impact.NOTHING_SERVES: "nothing serves yet, and nothing would",
}

Rows = Iterator[tuple[str, str]]
"""Labels and what is said under them."""


def exit_code(previews: Iterable[ModelPreview]) -> ExitCode:
    """Return the worst of all outcomes."""
    outcomes = {each.outcome for each in previews}
    if Outcome.ERROR in outcomes:
        return ExitCode.ERROR
    if Outcome.REFUSED in outcomes:
        return ExitCode.REFUSED
    return ExitCode.CLEAN if outcomes <= {Outcome.NOTHING} else ExitCode.FINDINGS


def rows(told: Forecast) -> Rows:
    """Yield what is worth a line, in the order in which people ask."""
    if told.outcome in (Outcome.NOTHING, Outcome.ERROR) or told.after is None:
        return
    yield from _revision(told)
    if told.is_rollout:
        yield "download", download(told)
        yield "strategy", str(told.strategy)
    if told.restart is not Restart.NONE:
        yield "Pods", _RESTARTS[told.restart]
    if told.needs is not None:
        yield "extra while it lasts", extra(told.needs)
        lasting = told.needs.after - told.needs.before
        if lasting != told.needs.extra:
            yield "extra afterwards", needs(lasting)
    if told.gate is not None and told.is_rollout:
        yield from _gate(told.gate)
    if told.worst is not None:
        yield "worst case", worst(told.worst)


def fields(told: Forecast) -> Iterator[str]:
    """Yield the declared fields that change; of a new DecisionModel they all do."""
    for change in told.fields if told.exists else ():
        yield f"{change.path}: {_value(change.before)} -> {_value(change.after)}"


def objects(told: Forecast) -> Iterator[str]:
    """Yield sign, kind and name of every object, which of its paths change, and when in a rollout."""
    for change in told.objects:
        shown = [path for path in change.paths if SPEC_HASH_ANNOTATION not in path]
        paths = f": {', '.join(shown)}" if shown else ""
        when = f"  ({change.during})" if told.is_rollout else ""
        yield f"{_SIGNS[change.action]} {change.kind} {change.name}{paths}{when}"


def download(told: Forecast) -> str:
    """Return how much is downloaded."""
    return UNKNOWN if told.download is None else size(Decimal(told.download))


def extra(told: NeedsOverTime) -> str:
    """Return what has to be free."""
    return needs(told.extra)


def needs(told: Needs) -> str:
    """Return the quantities that are not zero."""
    parts = {
        "CPU": f"{told.cpu.normalize():f}" if told.cpu else "",
        "memory": size(told.memory) if told.memory else "",
        "memory limit": size(told.memory_limit) if told.memory_limit else "",
        "GPU": f"{told.gpus.normalize():f}" if told.gpus else "",
        "storage": size(told.storage) if told.storage else "",
    }
    return ", ".join(f"{amount} {name}" for name, amount in parts.items() if amount) or "nothing"


def size(amount: Decimal) -> str:
    """Return bytes in the largest unit that keeps the number above one."""
    rest, units = amount, ["B", "KiB", "MiB", "GiB"]
    while abs(rest) >= 1024 and len(units) > 1:
        rest, units = rest / 1024, units[1:]
    digits = f"{rest:.1f}".removesuffix(".0")
    return f"{digits} {units[0]}"


def duration(seconds: float) -> str:
    """Return whole hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount) or "0s"


def ending(told: WorstCase) -> str:
    """Return where a rollout that fails leaves the DecisionModel, and after how long at the latest."""
    return f"{told.endings[-1].phase} after {duration(told.seconds)}" if told.endings else "it does not begin"


def worst(told: WorstCase) -> str:
    """Return how the rollout may end, and what clients notice."""
    reasons = ", ".join(each.reason for each in told.endings)
    impact = _IMPACTS.get(told.impact) or (
        f"the serving revision is stopped for up to {duration(told.outage_seconds)} and then started again"
    )
    parts = [f"{ending(told)} ({reasons}): {impact}"]
    if told.waits_for_approval:
        parts.append("waits for approval without a deadline")
    if told.watched_seconds:
        parts.append(f"rolled back if unhealthy within {duration(told.watched_seconds)} of its promotion")
    return "; ".join(parts)


def revision(told: RevisionStatus | None, *, known: bool = True) -> str:
    """Return a revision's name."""
    return "none" if told is None else told.hash if known else UNKNOWN


def summary(previews: tuple[ModelPreview, ...]) -> str:
    """Return how many models come to what."""
    counts = Counter(each.outcome for each in previews)
    return ", ".join(f"{counts[outcome]} {word}" for outcome, word in WORDS.items() if counts[outcome])


def _value(value: Any) -> str:
    if value is None:
        return "(unset)"
    shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]}…"


def _revision(told: Forecast) -> Rows:
    before, after = told.before, told.after
    if after is None:
        return
    if before is not None and before.hash == after.hash:
        yield "revision", f"{after.hash} stays"
        return
    yield "revision", f"{revision(before)} -> {revision(after, known=told.digest_known)}"
    if before is None or before.digest != after.digest:
        yield "digest", _moved(_digest(before), _digest(after) if told.digest_known else UNKNOWN)
    if before is None or before.image != after.image:
        yield "image", _moved(None if before is None else before.image, after.image)


def _digest(told: RevisionStatus | None) -> str | None:
    return None if told is None else f"sha256:{told.digest[:_SHORT_DIGEST]}"


def _moved(before: str | None, after: str | None) -> str:
    return f"{after}" if before is None else f"{before} -> {after}"


def _gate(told: Gate) -> Rows:
    yield "promotion", str(told.promotion)
    if not told.dataset:
        return
    thresholds = ", ".join(f"{name} {value}" for name, value in told.thresholds.items())
    items = UNKNOWN if told.items is None else str(told.items)
    yield "gate", f"{thresholds}; {items} items in {told.dataset}"
    if told.power is not None:
        yield "power", f"{told.power.text}, supposing {DISCORDANCE:.0%} disagreement"
    for warning in told.warnings:
        yield "gate warning", warning

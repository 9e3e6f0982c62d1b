"""A preview for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import click

from cli.forecast import Outcome
from cli.forecast.objects import Action, ObjectChange
from cli.preview.reading import ModelPreview
from cli.preview.wording import WORDS, rows, summary
from cli.texts import printable
from policy import Level

_COLOURS: Final[Mapping[Outcome, str]] = {
    Outcome.NOTHING: "green",
    Outcome.IN_PLACE: "yellow",
    Outcome.NEW_REVISION: "yellow",
    Outcome.REFUSED: "red",
    Outcome.ERROR: "red",
}
SIGNS: Final[Mapping[Action, str]] = {Action.CREATE: "+", Action.CHANGE: "~", Action.DELETE: "-"}
_LEVELS: Final[Mapping[Level, str]] = {Level.MANDATORY: "red", Level.ADVISORY: "yellow"}


def text_report(previews: tuple[ModelPreview, ...]) -> str:
    """Return a block for each DecisionModel and a last line with their numbers."""
    blocks = ("\n".join(_block(each)) for each in previews)
    return "\n\n".join([*blocks, summary(previews)])


def _block(each: ModelPreview) -> Iterator[str]:
    word = click.style(WORDS[each.outcome], fg=_COLOURS[each.outcome], bold=True)
    yield f"{printable(each.namespace)}/{printable(each.name)}: {word}  ({printable(each.file)}:{each.line})"
    if each.refused is not None:
        yield f"  {printable(each.refused.reason)}: {printable(each.refused.message)}"
    told = [*rows(each.forecast)]
    width = max((len(label) for label, _ in told), default=0)
    for label, value in told:
        yield f"  {printable(label):<{width}}  {printable(value)}"
    if each.forecast.objects:
        yield "  objects"
        yield from (f"    {object_line(change)}" for change in each.forecast.objects)
    for located in each.findings:
        finding = located.finding
        level = click.style(finding.level, fg=_LEVELS[finding.level])
        yield f"  {level}: {printable(finding.where)}: {printable(finding.message)} [{finding.rule}]"
    yield from (f"  note: {printable(note)}" for note in each.forecast.notes)


def object_line(change: ObjectChange) -> str:
    """Return sign, kind, name, when it happens and which paths change."""
    when = f"  ({change.during})" if change.during is not None else ""
    paths = f": {', '.join(change.paths)}" if change.paths else ""
    return printable(f"{SIGNS[change.action]} {change.kind} {change.name}{paths}{when}")

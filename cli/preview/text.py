"""A preview for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import click

from cli.forecast import Outcome
from cli.preview.reading import ModelPreview
from cli.preview.wording import WORDS, fields, objects, rows, summary
from cli.texts import printable
from policy import Level

_COLOURS: Final[Mapping[Outcome, str]] = {
    Outcome.NOTHING: "green",
    Outcome.IN_PLACE: "yellow",
    Outcome.NEW_REVISION: "yellow",
    Outcome.REFUSED: "red",
    Outcome.ERROR: "red",
}
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
    yield from _listed("fields", fields(each.forecast))
    told = [*rows(each.forecast)]
    width = max((len(label) for label, _ in told), default=0)
    for label, value in told:
        yield f"  {printable(label):<{width}}  {printable(value)}"
    yield from _listed("objects", objects(each.forecast))
    for located in each.findings:
        finding = located.finding
        level = click.style(finding.level, fg=_LEVELS[finding.level])
        yield f"  {level}: {printable(finding.where)}: {printable(finding.message)} [{finding.rule}]"
    yield from (f"  note: {printable(note)}" for note in each.forecast.notes)


def _listed(title: str, lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == 0:
            yield f"  {title}"
        yield f"    {printable(line)}"

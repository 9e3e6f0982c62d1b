"""A preview as a comment on a pull request: a table that says it all, and the details folded away.

Whatever comes from manifests or servers stands in code spans, where it is neither markup nor a mention.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cli.forecast import Forecast, Outcome
from cli.forecast.forecast import Restart
from cli.preview.reading import ModelPreview
from cli.preview.wording import WORDS, download, ending, extra, fields, objects, revision, rows, summary
from cli.texts import printable

_HEAD: Final = (
    "| DecisionModel | Outcome | Revision | Download | Extra while it lasts | Worst case |",
    "|---|---|---|---|---|---|",
)


def markdown_report(previews: tuple[ModelPreview, ...]) -> str:
    """Return the comment."""
    table = [*_HEAD, *(_row(each) for each in previews)]
    details = [line for each in previews for line in _details(each)]
    return "\n".join(["### DecisionModel preview", "", summary(previews), "", *table, *details])


def _row(each: ModelPreview) -> str:
    told = each.forecast
    word = f"**{WORDS[each.outcome]}**" if each.outcome is Outcome.REFUSED else WORDS[each.outcome]
    reason = f" {_code(each.refused.reason)}" if each.refused is not None else ""
    moved = f"{_code(revision(told.before))} → {_code(revision(told.after, known=told.digest_known))}"
    cells = (
        _code(f"{each.namespace}/{each.name}"),
        f"{word}{reason}",
        moved if told.is_rollout else _code(revision(told.before)),
        download(told) if told.is_rollout else "",
        extra(told.needs) if told.needs is not None else "",
        _end(told),
    )
    return f"| {' | '.join(cells)} |"


def _end(told: Forecast) -> str:
    if told.worst is not None:
        return ending(told.worst)
    return "nothing answers while Pods restart" if told.restart is Restart.OUTAGE else ""


def _details(each: ModelPreview) -> Iterator[str]:
    lines = [*_lines(each)]
    if not lines:
        return
    name = _escaped(f"{each.namespace}/{each.name}")
    yield from ("", f"<details><summary>{name}</summary>", "", *lines, "", "</details>")


def _lines(each: ModelPreview) -> Iterator[str]:
    if each.refused is not None:
        yield f"- {_code(each.refused.reason)}: {_code(each.refused.message)}"
    yield from (f"- {_code(line)}" for line in fields(each.forecast))
    yield from (f"- {_code(label)}: {_code(value)}" for label, value in rows(each.forecast))
    yield from (f"- {_code(line)}" for line in objects(each.forecast))
    for located in each.findings:
        finding = located.finding
        yield f"- {finding.level}: {_code(f'{finding.where}: {finding.message}')} ({_code(finding.rule)})"
    yield from (f"- note: {_code(note)}" for note in each.forecast.notes)


def _code(told: str) -> str:
    """Return a code span that nothing in it can end, within a table too."""
    return f"`{printable(told).replace('`', chr(39)).replace('|', chr(0x2758))}`"


def _escaped(told: str) -> str:
    """Return a text as HTML shows it."""
    shown = printable(told).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "&#96;")
    return f"<code>{shown}</code>"

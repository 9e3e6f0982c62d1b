"""What the commands print: tables for people, JSON whose keys and codes stay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from cli.state.findings import Finding
from cli.state.mending import Planned
from cli.texts import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One line of `ls`.

    Attributes:
        stack: Its name.
        decision_model: Namespace and name, as the stack's name has them.
        exists: Whether that DecisionModel does; None when no cluster was asked.
        resources: How many the state records; None when unknown.
        updated: When an operation last ended, RFC 3339; None when unknown.
        locks: How many it has.
    """

    stack: str
    decision_model: str
    exists: bool | None
    resources: int | None
    updated: str | None
    locks: int


_EXISTENCE = {True: "yes", False: "no", None: "?"}


def listing_text(stacks: Sequence[Listed]) -> str:
    """Return a table."""
    rows = [
        (
            each.stack,
            each.decision_model,
            _EXISTENCE[each.exists],
            "?" if each.resources is None else str(each.resources),
            str(each.locks),
            each.updated or "?",
        )
        for each in stacks
    ]
    titles = ("STACK", "DECISIONMODEL", "EXISTS", "RESOURCES", "LOCKS", "UPDATED")
    return _table([titles, *(tuple(map(printable, row)) for row in rows)])


def listing_json(stacks: Sequence[Listed]) -> str:
    """Return the stacks as JSON."""
    entries = [
        {
            "stack": each.stack,
            "decisionModel": each.decision_model,
            "exists": each.exists,
            "resources": each.resources,
            "updated": each.updated,
            "locks": each.locks,
        }
        for each in stacks
    ]
    return json.dumps({"stacks": entries}, indent=2)


def findings_text(checked: int, findings: Sequence[Finding]) -> str:
    """Return a line for each finding and what to do about them."""
    if not findings:
        return f"{checked} stacks, nothing found"
    lines = [f"{each.stack}: {each.code}: {each.message}{f' ({each.urn})' if each.urn else ''}" for each in findings]
    return "\n".join(
        [*map(printable, lines), "Next: `dmctl state repair STACK` for a state, `dmctl state sweep` for the orphaned."]
    )


def findings_json(checked: int, findings: Sequence[Finding]) -> str:
    """Return the findings as JSON."""
    return json.dumps({"checked": checked, "findings": [asdict(each) for each in findings]}, indent=2)


def changes_text(changes: Sequence[Planned], *, dry_run: bool) -> str:
    """Return a line for each change."""
    if not changes:
        return "nothing to do"
    lines = [f"{each.stack}: {each.change}: {each.message}" for each in changes]
    ending = ["Nothing was changed: this was a dry run."] if dry_run else []
    return "\n".join([*map(printable, lines), *ending])


def changes_json(changes: Sequence[Planned], *, dry_run: bool) -> str:
    """Return the changes as JSON."""
    return json.dumps({"dryRun": dry_run, "changes": [asdict(each) for each in changes]}, indent=2)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Iterable[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

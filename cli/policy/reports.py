"""The verdict as people and as programs read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import click

from cli.policy.junit import junit_report
from cli.policy.sarif import sarif_report
from cli.policy.verdict import LocatedFinding, Verdict
from cli.texts import printable
from policy import Level

_COLOURS: Final[Mapping[Level, str]] = {Level.MANDATORY: "red", Level.ADVISORY: "yellow"}


def text_report(verdict: Verdict) -> str:
    """Return lines for a terminal, a finding with its remedy in two of them."""
    return "\n".join([*(line for each in verdict.findings for line in _lines(each)), _summary(verdict)])


def json_report(verdict: Verdict) -> str:
    """Return one JSON object: the findings, and how many of each level."""
    return json.dumps(
        {
            "verdict": "refused" if verdict.exit_code else "passed",
            "checked": len(verdict.checked),
            "passedOver": verdict.passed_over,
            "mandatory": verdict.count(Level.MANDATORY),
            "advisory": verdict.count(Level.ADVISORY),
            "findings": [*map(_as_json, verdict.findings)],
        },
        indent=2,
    )


REPORTS: Final[Mapping[str, Callable[[Verdict], str]]] = {
    "text": text_report,
    "json": json_report,
    "sarif": sarif_report,
    "junit": junit_report,
}


def _lines(located: LocatedFinding) -> Iterator[str]:
    finding = located.finding
    level = click.style(finding.level, fg=_COLOURS[finding.level], bold=True)
    where = f"{printable(finding.where)}: " if finding.path else ""
    about = f"{printable(str(finding.object))}: {where}{printable(finding.message)}"
    yield f"{printable(located.file)}:{located.line}: {level}: {about} [{finding.rule}]"
    yield f"    {located.remedy}"


def _summary(verdict: Verdict) -> str:
    word = click.style("refused", fg="red", bold=True) if verdict.exit_code else click.style("passed", fg="green")
    counts = f"{verdict.count(Level.MANDATORY)} mandatory, {verdict.count(Level.ADVISORY)} advisory"
    passed_over = f", {verdict.passed_over} other documents passed over" if verdict.passed_over else ""
    return f"{word}: {counts} in {len(verdict.checked)} manifests{passed_over}"


def _as_json(located: LocatedFinding) -> dict[str, object]:
    finding = located.finding
    return {
        "rule": finding.rule,
        "level": str(finding.level),
        "kind": finding.object.kind,
        "namespace": finding.object.namespace,
        "name": finding.object.name,
        "path": finding.where,
        "message": finding.message,
        "remedy": located.remedy,
        "file": located.file,
        "line": located.line,
    }

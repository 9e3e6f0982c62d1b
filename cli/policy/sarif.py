"""The verdict in SARIF 2.1.0 (OASIS), which code hosts show beside the lines of a change."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from cli.policy.verdict import LocatedFinding, Verdict
from policy import RULES, Level, Rule

_LEVELS: Final[Mapping[Level, str]] = {
    Level.MANDATORY: "error",
    Level.ADVISORY: "warning",
    Level.DISABLED: "none",
}
_INDICES: Final[Mapping[str, int]] = {rule.id: index for index, rule in enumerate(RULES)}


def sarif_report(verdict: Verdict) -> str:
    """Return a log with one run."""
    driver = {"name": "dmctl", "rules": [*map(_rule, RULES)]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [*map(_result, verdict.findings)],
    }
    return json.dumps({"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]})


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": _plain(rule.why)},
        "help": {"text": _plain(rule.remedy)},
        "defaultConfiguration": {"level": _LEVELS[rule.level]},
    }


def _result(located: LocatedFinding) -> dict[str, Any]:
    finding = located.finding
    where = f"{finding.object}: {finding.where}" if finding.path else str(finding.object)
    return {
        "ruleId": finding.rule,
        "ruleIndex": _INDICES[finding.rule],
        "level": _LEVELS[finding.level],
        "message": {"text": _plain(f"{where}: {finding.message}. {located.remedy}")},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(located.file)},
                    "region": {"startLine": located.line},
                },
                "logicalLocations": [{"fullyQualifiedName": where, "kind": "member"}],
            }
        ],
    }


def _plain(text: str) -> str:
    """Return a text as one without links, which a manifest could bring in otherwise (SARIF 2.1.0, section 3.11.6)."""
    return re.sub(r"[\\\[\]]", r"\\\g<0>", text)


def _uri(file: str) -> str:
    """Return a reference relative to the working directory, which is the repository's root in a pipeline."""
    path = Path(file)
    if not path.is_absolute():
        return _quoted(path)
    here = Path.cwd()
    return _quoted(path.relative_to(here)) if path.is_relative_to(here) else path.as_uri()


def _quoted(path: Path) -> str:
    """Quote the bytes of a path, whose name need not be UTF-8."""
    return quote(os.fsencode(path))

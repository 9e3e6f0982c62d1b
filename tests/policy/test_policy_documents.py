"""docs/policy.md says of every rule what the code says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml
from pydantic.alias_generators import to_camel

from api.descriptions import field_descriptions
from policy import RULES, Rule, read_configuration

DOCUMENT = Path(__file__).parents[2] / "docs" / "policy.md"


def section(rule: Rule) -> str:
    """Return what the document has to say about a rule; a failed test shows the text to put there."""
    lines = [
        f"### `{rule.id}`",
        rule.why,
        f"What to do: {rule.remedy}",
        f"Level: {rule.level}.",
    ]
    meanings = field_descriptions(rule.settings)
    rows = [
        f"| `{to_camel(name)}` | `{json.dumps(field.get_default())}` | {' '.join(meanings[name].split())} |"
        for name, field in rule.settings.model_fields.items()
        if name != "level"
    ]
    if rows:
        lines.append("\n".join(["| Parameter | Default | Meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(lines)


def test_every_rule_is_documented_as_it_is_and_no_other() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    documented = re.split(r"^(?=### )", text.partition("\n## Rules\n")[2], flags=re.MULTILINE)
    assert [each.strip() for each in documented if each.strip()] == [section(rule) for rule in RULES]


def test_the_configuration_in_the_document_is_read() -> None:
    (shown,) = re.findall(r"^```yaml\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    for environment in (None, "dev", "prod"):
        read_configuration(yaml.safe_load(shown), environment)

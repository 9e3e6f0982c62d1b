"""Label and field selectors as the fake API server evaluates them."""

import re
from dataclasses import dataclass
from typing import Any

_REQUIREMENT = re.compile(
    r"\s*(?P<absent>!)?(?P<key>[\w./-]+)\s*"
    r"(?:(?P<op>==|=|!=)\s*(?P<value>[\w.-]*)|(?P<set>in|notin)\s*\((?P<values>[^)]*)\))?\s*(?:,|$)"
)


@dataclass(frozen=True)
class _Requirement:
    key: str
    values: frozenset[str] | None  # None asks only whether the key is there.
    negated: bool

    def matches(self, labels: dict[str, str]) -> bool:
        found = self.key in labels if self.values is None else labels.get(self.key) in self.values
        return found != self.negated


@dataclass(frozen=True)
class Selector:
    """What a list or watch asks for; an absent object matches nothing."""

    labels: tuple[_Requirement, ...]
    fields: tuple[tuple[str, str], ...]

    def matches(self, obj: dict[str, Any] | None) -> bool:
        if obj is None:
            return False
        labels = obj["metadata"].get("labels") or {}
        return all(requirement.matches(labels) for requirement in self.labels) and all(
            _field(obj, path) == value for path, value in self.fields
        )


def parse_selector(query: dict[str, str]) -> Selector:
    """Read the selectors of a request's query."""
    fields = [part.partition("=") for part in query.get("fieldSelector", "").split(",") if part]
    return Selector(
        labels=tuple(_requirement(match) for match in _REQUIREMENT.finditer(query.get("labelSelector", ""))),
        fields=tuple((path, value) for path, _, value in fields),
    )


def _requirement(match: re.Match[str]) -> _Requirement:
    values = None
    if match["op"]:
        values = frozenset({match["value"]})
    if match["set"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
    return _Requirement(match["key"], values, bool(match["absent"]) or match["op"] == "!=" or match["set"] == "notin")


def _field(obj: Any, path: str) -> Any:
    for name in path.split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj

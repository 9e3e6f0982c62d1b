"""Fields that the declared API does not have: the cluster drops them in silence, and they never do anything."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

from api.spec import DecisionModelSpec
from api.structural import structural_schema
from policy.navigation import JsonObject, Path, at, mapping, sequence
from policy.objects import DECISION_MODEL
from policy.rule import Level, Problem, Rule, Settings, Subject

_MOST_PROBLEMS: Final = 20
_LONGEST_NAME: Final = 64
"""Longer ones are no misspelling, and looking for what they resemble would take long."""


@functools.cache
def _spec_schema() -> JsonObject:
    return structural_schema(DecisionModelSpec, defaults=False)


def _known(subject: Subject, _: Settings) -> Iterator[Problem]:
    yield from islice(_unknown(_spec_schema(), at(subject.object, "spec"), ("spec",)), _MOST_PROBLEMS)


def _unknown(schema: JsonObject, value: Any, path: Path) -> Iterator[Problem]:
    """Yield what `value` has and its schema does not; a value of the wrong type is another rule's affair."""
    if not schema:  # anything may stand there, however deep
        return
    properties, others = schema.get("properties"), mapping(schema.get("additionalProperties"))
    for key, item in mapping(value).items():
        if properties is None or key in properties:
            yield from _unknown((properties or {}).get(key, others), item, (*path, key))
        elif not others:
            yield Problem((*path, key), f"there is no such field{_suggestion(str(key), [*properties])}")
    for index, item in enumerate(sequence(value)):
        yield from _unknown(mapping(schema.get("items")), item, (*path, index))


def _suggestion(key: str, known: list[str]) -> str:
    close = get_close_matches(key, known, n=1) if len(key) <= _LONGEST_NAME else []
    return f", but there is {close[0]}" if close else ""


RULES: Final = (
    Rule(
        id="fields-known",
        why="A misspelt field is dropped without a word, and what it asked for never happens.",
        remedy="Correct the field's name, or remove it.",
        level=Level.ADVISORY,
        kinds=DECISION_MODEL,
        examine=_known,
    ),
)

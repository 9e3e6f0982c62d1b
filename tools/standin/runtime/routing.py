"""Where a router sends a state: the `script` strategy of spec section 2.8 (pure)."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final

from .manifests import RouterTable

_ENGLISH_TEXT: Final = (
    "the and to of in is was for i my you it that this on with have not are be me your please can we they from "
    "does yes how what when why who hello thanks"
)
_ENGLISH: Final = frozenset(_ENGLISH_TEXT.split())
_FEWEST_WORDS_TO_JUDGE: Final = 4


@dataclass(frozen=True, slots=True)
class Route:
    """The chosen route, the model behind it, and why."""

    route: str
    model: str
    reason: str


def choose_route(table: RouterTable, state: str) -> Route:
    """Return the route for `state`: english or multilingual by script and language, the default without letters."""
    letters = [letter for letter in state if letter.isalpha()]
    if not letters:
        return _route(table, table.default, "no letters")
    latin = sum("LATIN" in unicodedata.name(letter, "") for letter in letters)
    if latin * 2 < len(letters):
        return _route(table, "multilingual", "mostly non-Latin script")
    if not _looks_english(state):
        return _route(table, "multilingual", "Latin script, not English")
    return _route(table, "english", "English")


def _route(table: RouterTable, wanted: str, reason: str) -> Route:
    route = wanted if wanted in table.routes else table.default
    return Route(route, table.routes[route], reason)


def _looks_english(state: str) -> bool:
    words = [word.strip(".,!?;:'\"()") for word in state.lower().split()]
    if len(words) < _FEWEST_WORDS_TO_JUDGE:
        return state.isascii()
    return any(word in _ENGLISH for word in words)

"""Text to word stems, small enough to be read at a glance: the stand-in's whole understanding of language."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+")
_PIECE: Final = re.compile(r"\w+|[^\w\s]")
_STOP_WORDS_TEXT: Final = (
    "a about after all am an and any are as at be been before but by can could did do does for from had has have he "
    "her him his how i if in into is it its just me my no not of on or our out please she should so some than that the "
    "their them then there these they this those to too up us very was we were what when where which who why will with "
    "would you your"
)
_STOP_WORDS: Final = frozenset(_STOP_WORDS_TEXT.split())
_SUFFIXES: Final = (
    "ments", "ment", "ations", "ation", "ings", "ing", "edly", "ied", "ies", "ed", "es", "ly", "er", "s", "e", "y",
)  # fmt: skip
_SHORTEST_STEM: Final = 3
_CATCH_ALL: Final = frozenset({"other", "anything", "else", "none", "rest", "unknown", "general"})


def stems(text: str) -> list[str]:
    """Return the stems of the words that carry meaning, in order."""
    return [stem(word) for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS]


def stem(word: str) -> str:
    """Return `word` without an English ending, so that charged and charges meet in charg."""
    for suffix in _SUFFIXES:
        root = word.removesuffix(suffix)
        if root != word and len(root) >= _SHORTEST_STEM:
            return root[:-1] if len(root) > _SHORTEST_STEM and root[-1] == root[-2] else root
    return word


def is_catch_all(text: str) -> bool:
    """Tell whether a description means "whatever fits nowhere else"."""
    return not _CATCH_ALL.isdisjoint(_WORD.findall(text.lower()))


def count_tokens(text: str) -> int:
    """Return a length in tokens: words and punctuation marks."""
    return sum(1 for _ in _PIECE.finditer(text))


def cut_tokens(text: str, limit: int) -> str:
    """Return the first `limit` tokens of `text`."""
    for index, piece in enumerate(_PIECE.finditer(text)):
        if index == limit:
            return text[: piece.start()]
    return text

"""Messages of other programs, made fit for a status condition: no colours, no hints, no tracebacks, bounded. Pure."""

from __future__ import annotations

import re

MAX_MESSAGE_CHARACTERS = 1024
"""Bound on a failure's message; a condition's message may hold 32768, but people read it in a table."""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|<\{%[^%]*%\}>")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TRACEBACK = re.compile(r"\n?Traceback \(most recent call last\):.*", re.DOTALL)
_PREFIXES = re.compile(
    r"^(?:\s|error:|Retry #\d+;? ?|an unhandled error occurred:|python inline source runtime error:)+", re.IGNORECASE
)
_HINTS = re.compile(
    r"would you like help with|pulumi neo|ask pulumi|app\.pulumi\.com|pulumi\.com/docs|for more information"
    r"|use `pulumi|this could be because|^see https?://|^\s*\[?hint",
    re.IGNORECASE,
)
_CREDENTIALS = re.compile(
    r"(?P<key>(?:bearer|basic)\s+|(?:passw(?:or)?d|passphrase|token|secret|access[_-]?key(?:[_-]?id)?)\"?\s*[=:]\s*\"?"
    r"|://[^/\s:@]*:)(?P<value>[^\s\"'@&]{4,})",
    re.IGNORECASE,
)


def clean_message(text: str) -> str:
    """What a tool said, without what only its terminal needs.

    What looks like a credential is masked: other programs' messages may quote their configuration.
    """
    plain = _TRACEBACK.sub("", _CONTROLS.sub("", _ESCAPES.sub("", text)))
    lines = (line.strip() for line in plain.splitlines())
    kept = " ".join(line for line in lines if line and not _HINTS.search(line))
    masked = _CREDENTIALS.sub(lambda match: f"{match['key']}[masked]", _PREFIXES.sub("", kept))
    return _bounded(masked.strip())


def _bounded(text: str) -> str:
    if len(text) <= MAX_MESSAGE_CHARACTERS:
        return text
    return text[: MAX_MESSAGE_CHARACTERS - 1] + "…"

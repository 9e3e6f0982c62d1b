"""Texts of other components as conditions may repeat them: one line, short, and with nothing that could be a secret.

A condition is readable for everybody who may read the DecisionModel, and those may be more than may read Pods or
Events.
"""

from __future__ import annotations

import re
from typing import Final

from reconciler.rollout.obstacle import cut

LONGEST_WORDS: Final = 240
"""Characters of another component's text that are repeated."""

_LONGEST_READ: Final = 4096
_REDACTED: Final = "***"

# `Back-off pulling image "x": ErrImagePull: why` and `why` are the same obstacle: the kubelet tells them in turn.
_BACK_OFF: Final = re.compile(r"\ABack-off pulling image \"[^\"]*\"(?:: ErrImagePull)?(?:: )?")
# A Pod that was not created has another name with every attempt.
_UNBORN_POD: Final = re.compile(r"(?:Error creating: )?pods \"[^\"]*\" is forbidden: ")
_USERINFO: Final = re.compile(r"(?<=://)[^\s/@\"']+@")
_QUERY: Final = re.compile(r"(?<=[^\s\"'?])\?[^\s\"'?]*[=%&][^\s\"']*")
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}")
_ASSIGNED: Final = re.compile(
    r"(?i)([\w.-]*(?:token|secret|passw(?:or)?d|passwd|credentials?|api[_-]?key|access[_-]?key|authorization)[\w.-]*"
    r"[\"']?\s*[=:]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s,;\"']+)"
)
# A variable in capitals with a value, as a runtime quotes an environment.
_VARIABLE: Final = re.compile(r"\b([A-Z][A-Z0-9_]{2,}=)(?:\"[^\"]*\"|'[^']*'|[^\s,;\"']+)")
_TOKEN: Final = re.compile(
    r"\b(?:eyJ[\w-]{8,}(?:\.[\w-]+)*|hf_\w{8,}|gh[pousr]_\w{8,}|AKIA[A-Z0-9]{12,}|xox[abp]-[\w-]{8,}|sk-[\w-]{8,})"
)


def shortened(text: object, longest: int = LONGEST_WORDS) -> str:
    """Return another component's text as a condition may repeat it; empty for what is no text."""
    if not isinstance(text, str):
        return ""
    line = " ".join("".join(each if each.isprintable() else " " for each in text[:_LONGEST_READ]).split())
    told = without_secrets(_UNBORN_POD.sub("", _BACK_OFF.sub("", line)))
    return cut(told.rstrip(" .;"), longest)


def without_secrets(text: str) -> str:
    """Return a text without userinfo and queries of URLs, tokens, and values of what is called like a secret."""
    text = _QUERY.sub("", _USERINFO.sub("", text))
    text = _BEARER.sub(rf"\1 {_REDACTED}", text)
    text = _VARIABLE.sub(rf"\1{_REDACTED}", _ASSIGNED.sub(rf"\1{_REDACTED}", text))
    return _TOKEN.sub(_REDACTED, text)

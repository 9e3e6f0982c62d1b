"""Where in an object something is, as text: `spec.template.spec.containers[ollaya].env[PROXY]`.

A step in brackets is a key of a map, or what tells the items of a list apart. People put anything into some of those
(the name of a variable may have a bracket), so a closing bracket and a backslash have a backslash before them.
"""

from __future__ import annotations

import re
from typing import Final

_SPECIAL: Final = re.compile(r"([\]\\])")
_STEP: Final = re.compile(r"([A-Za-z]+)|\[((?:[^\]\\]|\\.)*)\]", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def keyed(path: str, key: object) -> str:
    """Return the path of a map's key or a list's item."""
    escaped = _SPECIAL.sub(r"\\\1", str(key))
    return f"{path}[{escaped}]"


def joined(path: str, field: str) -> str:
    """Return the path of a field; one whose name has a slash or a dot is a map's key."""
    if "/" in field or "." in field:
        return keyed(path, field)
    return f"{path}.{field}" if path else field


def steps(path: str) -> list[str]:
    """Return the fields, keys and items that a path goes through."""
    return [field or _ESCAPED.sub(r"\1", key) for field, key in _STEP.findall(path)]

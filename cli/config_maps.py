"""The values of ConfigMaps, whoever wrote them."""

from __future__ import annotations

import base64
from typing import Any

from policy.navigation import at, text


def config_map_value(config_map: Any, key: str) -> bytes | None:
    """Return the bytes under a key, whichever way they are kept; None where there are none."""
    plain = at(config_map, "data", key)
    if isinstance(plain, str):
        return plain.encode()
    try:
        return base64.b64decode(text(at(config_map, "binaryData", key)), validate=True) or None
    except ValueError:
        # Also what base64 is not: binascii.Error is one.
        return None

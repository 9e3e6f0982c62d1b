"""Values with one JSON text each: equal values give equal bytes, and only such bytes give a value. Pure."""

from __future__ import annotations

from typing import Annotated

import msgspec

Text = Annotated[str, msgspec.Meta(max_length=1 << 20)]


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of values that are read back: whoever reads one gets exactly its fields, or an error."""


def encode_canonical(value: msgspec.Struct) -> bytes:
    """JSON without spaces, fields in their order, keys of maps sorted."""
    return msgspec.json.encode(value, order="deterministic")

"""The file of a state as the backend has it, read as strictly as can be. Pure.

The CLI reads it again by itself, with Go's JSON, which folds the case of keys and merges what is said twice. What the
two could understand differently is refused here.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, NoReturn

from reconciler.driver.errors import CheckpointInvalidError

SIZE_LIMIT = 32 * 1024 * 1024
"""Of a state, unpacked: some hundred times what the largest manifests that the API server takes come to."""

_GZIP = b"\x1f\x8b\x08"
_GZIP_WINDOW = 31
"""zlib's word for gzip with the largest window (`windowBits`)."""


def parse_checkpoint(data: bytes) -> Mapping[str, Any]:
    """Read a state's file, packed or plain.

    Raises:
        CheckpointInvalidError: It is none that the CLI would write.
    """
    text = _unpacked(data) if data.startswith(_GZIP) else data
    if len(text) > SIZE_LIMIT:
        raise CheckpointInvalidError(f"it has more than {SIZE_LIMIT} bytes")
    try:
        document = json.loads(text.decode(), object_pairs_hook=_once, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CheckpointInvalidError(f"it is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise CheckpointInvalidError("it is no JSON object")
    return document


def _unpacked(data: bytes) -> bytes:
    unpacking = zlib.decompressobj(_GZIP_WINDOW)
    try:
        text = unpacking.decompress(data, SIZE_LIMIT + 1)
    except zlib.error as error:
        raise CheckpointInvalidError(f"it cannot be unpacked: {error}") from error
    if len(text) <= SIZE_LIMIT and (not unpacking.eof or unpacking.unused_data):
        raise CheckpointInvalidError("it is cut off, or something follows it")
    return text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise CheckpointInvalidError("it says something twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise CheckpointInvalidError(f"{name} is no number")

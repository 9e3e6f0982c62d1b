"""How much a new revision's prefetch Job downloads, from the manifest that its digest names. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated

import msgspec


class _Layer(msgspec.Struct):
    digest: str
    size: Annotated[int, msgspec.Meta(ge=0)]


class _Manifest(msgspec.Struct):
    layers: list[_Layer]


def download_bytes(digest: str, manifests: Iterable[bytes]) -> int | None:
    """Return the bytes of all layers; None when none of the manifests is the one of `digest`, or it is unreadable.

    A layer that is listed twice is downloaded once. The config blob, some hundred bytes, is not counted.
    """
    for content in manifests:
        if hashlib.sha256(content).hexdigest() == digest:
            return _layers(content)
    return None


def _layers(content: bytes) -> int | None:
    try:
        manifest = msgspec.json.decode(content, type=_Manifest)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return sum({layer.digest: layer.size for layer in manifest.layers}.values())

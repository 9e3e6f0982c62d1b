"""Reading the bodies of HTTP answers, which may come from anybody and be of any size."""

from __future__ import annotations

import asyncio
from typing import Final

import httpx2

_MOST_PIECES: Final = 1 << 12
"""Honest servers send pieces of a few KiB; each one costs the loop as much as a call, whatever its size."""
_PIECES_AT_A_TIME: Final = 64


class BodyTooLarge(Exception):  # noqa: N818 - internal: both clients turn it into an error of their own
    """The body exceeds the limit, or comes in crumbs; what was read of it is dropped."""


async def read_body(response: httpx2.Response, *, limit: int) -> bytes:
    """The exact bytes on the wire, at most `limit` of them.

    Nothing is decompressed, so neither does a small body grow nor a digest change.

    Raises:
        BodyTooLarge: There is more.
        httpx2.TransportError: The connection broke.
    """
    body = bytearray()
    pieces = 0
    async for chunk in response.aiter_raw():
        body += chunk
        pieces += 1
        if len(body) > limit or pieces > _MOST_PIECES:
            raise BodyTooLarge
        if pieces % _PIECES_AT_A_TIME == 0:
            await asyncio.sleep(0)  # What has arrived together comes without a pause for others.
    return bytes(body)

"""Reading the bodies of HTTP answers, which may come from anybody and be of any size."""

from __future__ import annotations

import httpx2


class BodyTooLarge(Exception):  # noqa: N818 - internal: both clients turn it into an error of their own
    """The body exceeds the limit; what was read of it is dropped."""


async def read_body(response: httpx2.Response, *, limit: int) -> bytes:
    """The exact bytes on the wire, at most `limit` of them.

    Nothing is decompressed, so neither does a small body grow nor a digest change.

    Raises:
        BodyTooLarge: There is more.
        httpx2.TransportError: The connection broke.
    """
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > limit:
            raise BodyTooLarge
    return bytes(body)

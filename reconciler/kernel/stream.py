"""Turns the bytes of a watch response into events.

Lines are split here, on newlines only: a text line splitter would also break at U+2028 and its kin, which JSON may
hold.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec

from reconciler.kernel.errors import KubernetesError, error_from_status
from reconciler.kernel.resources import KubernetesObject

# The API server accepts objects of a few MiB at most; a longer line is not from it.
_MAX_LINE_BYTES = 16 * 1024 * 1024
EVENT_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change: `type` is one of `EVENT_TYPES`; a bookmark's object holds only its resourceVersion."""

    type: str
    object: KubernetesObject


class _Envelope(msgspec.Struct):
    type: str
    object: dict[str, Any]


_decoder = msgspec.json.Decoder(_Envelope)


class WatchStream:
    """The events of one watch request, in order; ends when the server closes the stream."""

    def __init__(self, chunks: AsyncIterator[bytes], *, request: str) -> None:
        self._chunks = chunks
        self._request = request

    async def __aiter__(self) -> AsyncIterator[WatchEvent]:
        """Yield events.

        Raises:
            KubernetesError: An ERROR event, as the class of its status (410 is `Expired`), or bytes that are no event.
        """
        pending = b""
        async for chunk in self._chunks:
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    yield self._parse(line)
            if len(pending) > _MAX_LINE_BYTES:
                raise self._unreadable(f"a line of more than {_MAX_LINE_BYTES} bytes")
        if pending.strip():
            raise self._unreadable("the stream ended inside an event")

    def _parse(self, line: bytes) -> WatchEvent:
        try:
            envelope = _decoder.decode(line)
        except msgspec.DecodeError as error:
            raise self._unreadable(str(error)) from error
        if envelope.type == "ERROR":
            raise error_from_status(envelope.object, request=self._request)
        if envelope.type not in EVENT_TYPES or not isinstance(envelope.object.get("metadata"), dict):
            raise self._unreadable(f"unknown event {envelope.type!r}")
        return WatchEvent(envelope.type, envelope.object)

    def _unreadable(self, detail: str) -> KubernetesError:
        return KubernetesError(detail, reason="InvalidResponse", request=self._request)

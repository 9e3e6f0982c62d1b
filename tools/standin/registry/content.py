"""The bytes behind a blob: held in memory, or zeros that are made as they are sent."""

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

_SLICE = 1 << 20


class Content(Hashable, Protocol):
    """A readable sequence of bytes of known length."""

    @property
    def size(self) -> int:
        """Length in bytes."""

    def read(self, start: int, stop: int) -> bytes:
        """The bytes of the half-open interval, which lies within the content."""


@dataclass(frozen=True, slots=True)
class Held:
    """Content held in memory."""

    data: bytes

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self.data)

    def read(self, start: int, stop: int) -> bytes:
        """The bytes of the half-open interval."""
        return self.data[start:stop]


@dataclass(frozen=True, slots=True)
class Zeros:
    """A run of zero bytes that takes no memory: large enough for a client to fetch it in ranges."""

    size: int

    def read(self, start: int, stop: int) -> bytes:
        """The bytes of the half-open interval."""
        return bytes(stop - start)


@dataclass(frozen=True, slots=True)
class Damaged:
    """Content of the right length whose first byte is wrong, so that no digest of the original matches."""

    original: Content

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self.original.size

    def read(self, start: int, stop: int) -> bytes:
        """The bytes of the half-open interval."""
        data = self.original.read(start, stop)
        return bytes([data[0] ^ 0xFF]) + data[1:] if start == 0 and data else data


@cache
def sha256_hex(content: Content) -> str:
    """The content's digest as 64 hex digits, computed once per process."""
    digest = hashlib.sha256()
    for start in range(0, content.size, _SLICE):
        digest.update(content.read(start, min(start + _SLICE, content.size)))
    return digest.hexdigest()

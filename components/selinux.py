"""The SELinux level that a model's Pods share, so that serving can read what prefetching wrote (spec section 4.8)."""

from __future__ import annotations

import hashlib

_CATEGORIES = 1024


def selinux_level(namespace: str, name: str) -> str:
    """Return `s0:c<low>,c<high>`: two distinct categories that depend on the model alone."""
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).digest()
    first = int.from_bytes(digest[:2]) % _CATEGORIES
    # One category fewer, then a step over the first: distinct without trying again.
    second = int.from_bytes(digest[2:4]) % (_CATEGORIES - 1)
    if second >= first:
        second += 1
    low, high = sorted((first, second))
    return f"s0:c{low},c{high}"

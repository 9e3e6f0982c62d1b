"""The namespaces that a reconciler looks after, as its flag and `dmctl state` name them."""

from __future__ import annotations

import re
from typing import Final

import click

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def parse_namespaces(text: str) -> tuple[str, ...]:
    """Read a comma-separated list of namespaces; empty means all of them.

    Raises:
        click.BadParameter: An item is empty or no namespace.
    """
    if not text.strip():
        return ()
    items = [item.strip() for item in text.split(",")]
    for item in items:
        if not _NAMESPACE.fullmatch(item):
            raise click.BadParameter(f"--watch-namespaces: {item[:63]!r} is not the name of a namespace")
    return tuple(dict.fromkeys(items))

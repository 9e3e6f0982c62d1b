"""Telling people what is being waited for, once it takes long enough to wonder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

_PATIENCE_SECONDS: Final = 2.0


@contextmanager
def telling(what: str, patience: float = _PATIENCE_SECONDS) -> Iterator[None]:
    """Say `what` on standard error if the block takes longer than `patience` seconds. Needs a running event loop."""
    timer = asyncio.get_running_loop().call_later(patience, lambda: click.echo(f"{what} …", err=True))
    try:
        yield
    finally:
        timer.cancel()

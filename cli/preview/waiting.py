"""Telling people what is being waited for, once it takes long enough to wonder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

_PATIENCE_SECONDS: Final = 2.0


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Say `what` on standard error if the block takes longer than people wait. Needs a running event loop."""
    timer = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, lambda: click.echo(f"{what} …", err=True))
    try:
        yield
    finally:
        timer.cancel()

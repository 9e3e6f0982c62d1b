"""Fixtures of the controller's tests: a cluster of fakes with a whole reconciler in it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.reconciler.controller.bed import Bed, open_bed
from tools.standin.registry import Registry


@pytest.fixture
async def bed(registry: Registry, tmp_path: Path) -> AsyncIterator[Bed]:
    """A reconciler at work, with nothing to do yet."""
    async with open_bed(registry, tmp_path) as opened:
        opened.start()
        yield opened


@pytest.fixture
async def idle_bed(registry: Registry, tmp_path: Path) -> AsyncIterator[Bed]:
    """A cluster whose reconciler is not started yet."""
    async with open_bed(registry, tmp_path) as opened:
        yield opened

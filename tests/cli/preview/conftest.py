"""A cluster of fakes with a whole reconciler in it, for previews of what that reconciler then does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.preview.asking import Asked
from tests.reconciler.controller.bed import open_bed
from tools.standin.registry import Registry


@pytest.fixture
async def asked(registry: Registry, tmp_path: Path) -> AsyncIterator[Asked]:
    """A cluster whose reconciler is not started yet, and a preview of it."""
    async with open_bed(registry, tmp_path) as bed:
        yield Asked(bed)

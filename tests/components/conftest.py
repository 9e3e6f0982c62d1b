"""The real Pulumi engine, for the tests marked `cluster`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.components.engines import Engine
from tools.toolchain.builds import program_path
from tools.toolchain.plugins import prepare_pulumi_home


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    prepare_pulumi_home(tmp_path / "home")
    # The SDK looks for the CLI in `bin` under its root.
    (tmp_path / "cli" / "bin").mkdir(parents=True)
    (tmp_path / "cli" / "bin" / "pulumi").symlink_to(program_path("pulumi"))
    return Engine(tmp_path)

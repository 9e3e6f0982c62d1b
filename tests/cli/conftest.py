"""dmctl for every test of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Dmctl


@pytest.fixture
def dmctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Dmctl:
    return Dmctl(tmp_path, monkeypatch, capsys)

"""Runs dmctl as its users do, within the test's process."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.command import main


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


class Dmctl:
    """Commands in one working directory."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._patch = patch
        self._capture = capture
        patch.chdir(directory)

    def write(self, name: str, *documents: Any) -> str:
        """Write documents into a file, texts as they are; return its name."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = (each if isinstance(each, str) else yaml.safe_dump(each, sort_keys=False) for each in documents)
        path.write_text("---\n".join(texts), encoding="utf-8")
        return name

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Done:
        """Run a command."""
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main(arguments)
        captured = self._capture.readouterr()
        return Done(code, captured.out, captured.err)

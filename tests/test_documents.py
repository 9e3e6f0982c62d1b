"""What the documents say is so: files exist, commands exist, quoted manifests and keys are the real ones."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def console_commands() -> Iterator[tuple[str, str]]:
    for document in DOCUMENTS:
        for block in blocks(document, "console"):
            for line in block.splitlines():
                if line.startswith("$ "):
                    yield document.name, line[2:].split("#", 1)[0].strip()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = "\n".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    named = set(re.findall(r"`make ([a-z-]+)", text)) | {
        command.split()[1] for _, command in console_commands() if command.startswith("make ")
    }
    assert named <= targets
    assert {"demo", "test", "check", "bench", "image", "cluster-up", "cluster-down", "deploy"} <= targets


def test_programs_exist() -> None:
    """A shell finds those that the documents say are needed, and the repository has the others."""
    needed = {"export", "make", "kubectl", "pulumi", "skopeo"}
    for document, command in console_commands():
        program = command.split()[0]
        own = ROOT / program
        # The page that calls it by its name says how it gets on the path.
        assert program in needed or (own.is_file() and os.access(own, os.X_OK)), f"{document}: {command}"


def test_the_manifest_in_the_readme_is_the_one_that_the_demo_applies() -> None:
    (shown,) = blocks(ROOT / "README.md", "yaml")
    applied = yaml.safe_load((ROOT / "stacks" / "dev" / "support-router.yaml").read_text(encoding="utf-8"))
    assert yaml.safe_load(shown) == applied


def test_the_demo_output_in_the_readme_is_there() -> None:
    (shown,) = re.findall(
        r"<!-- demo -->\n```text\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert "answered: billing" in shown
    assert ", 0 failed" in shown


def test_requirements_are_what_the_lock_says() -> None:
    uv = shutil.which("uv") or next(iter(sorted(Path.home().glob(".cache/decisionmodel/uv-*/bin/uv"))), None)
    assert uv, "uv is missing: make .venv installs it"
    exported = subprocess.run(
        [str(uv), "export", "--quiet", "--locked", "--offline", "--no-dev", "--no-emit-project", "--no-header"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    written = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in written if not line.startswith("#")] == exported.splitlines()

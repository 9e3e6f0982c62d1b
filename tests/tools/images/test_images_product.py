"""The reconciler's image holds every package of this project that its two programs import, and no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tools.images.recipes import _PRODUCT, ROOT


def imported_packages(package: str) -> Iterator[str]:
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (name.name.partition(".")[0] for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.partition(".")[0]


def own_packages() -> set[str]:
    return {path.parent.name for path in ROOT.glob("*/__init__.py")}


def needed() -> set[str]:
    """The packages that are reached from the reconciler, and from the command line that is run in its Pod."""
    found, waiting = set[str](), {"reconciler", "cli"}
    while waiting:
        package = waiting.pop()
        found.add(package)
        waiting |= (set(imported_packages(package)) & own_packages()) - found
    return found


def test_the_image_holds_what_its_programs_import() -> None:
    assert set(_PRODUCT) == {*needed(), "dmctl"}


def test_the_containerfile_copies_it() -> None:
    lines = (ROOT / "images" / "reconciler.Containerfile").read_text(encoding="utf-8").splitlines()
    copied = {line.split()[1] for line in lines if line.startswith("COPY ") and "--" not in line}
    assert copied - {"requirements.txt"} == set(_PRODUCT)


def test_nothing_else_reaches_the_build() -> None:
    lines = Path(ROOT / "images" / "reconciler.containerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert let_in - {"requirements.txt"} == set(_PRODUCT)

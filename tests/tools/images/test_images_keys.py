"""When an image is built again: exactly when something that goes into it has changed."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.images import recipes
from tools.images.keys import content_parts, key_of, program_part
from tools.images.recipes import Image, Programs, base_image, reconciler_image, runtime_image, standin_image

_PARTS = st.lists(st.one_of(st.text(max_size=5), st.binary(max_size=5)), max_size=4)


@given(_PARTS, _PARTS)
def test_only_equal_sequences_share_a_key(first: list[str | bytes], second: list[str | bytes]) -> None:
    def encoded(parts: list[str | bytes]) -> list[bytes]:
        return [part.encode() if isinstance(part, str) else part for part in parts]

    assert (key_of(first) == key_of(second)) == (encoded(first) == encoded(second))


def test_content_is_paths_and_bytes_without_bytecode(tmp_path: Path) -> None:
    (tmp_path / "code/__pycache__").mkdir(parents=True)
    (tmp_path / "code/b.py").write_text("b")
    (tmp_path / "code/a.py").write_text("a")
    (tmp_path / "code/__pycache__/a.pyc").write_text("compiled")
    (tmp_path / "other.py").write_text("not asked for")
    assert content_parts(tmp_path, ["code"]) == ["code/a.py", b"a", "code/b.py", b"b"]


def test_another_build_of_a_program_is_another_part(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"one")
    before = program_part(program)
    os.utime(program, (1, 1))
    assert program_part(program) != before


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work tree with one file of everything that goes into an image."""
    files = ["api/a.py", "cli/l.py", "components/c.py", "reconciler/main.py", "requirements.txt", "tools/__init__.py"]
    files += ["tools/standin/s.py", "tools/other.py", "tests/t.py", "images/ollaya.sh"]
    files += [f"images/{name}.{kind}" for name in ("base", "reconciler", "standin") for kind in _KINDS]
    files += ["pulumi", "provider"]
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(file)
    monkeypatch.setattr(recipes, "ROOT", tmp_path)
    monkeypatch.setattr(recipes, "CONTAINERFILES", tmp_path / "images")
    return tmp_path


_KINDS = ("Containerfile", "containerignore")


def images(tree: Path) -> dict[str, Image]:
    base = base_image()
    runtime = runtime_image(base, Programs(tree / "pulumi", tree / "provider", "v1"))
    made = [base, runtime, reconciler_image(runtime), standin_image("ollaya", base), standin_image("registry", base)]
    return {image.name: image for image in made}


EVERYTHING = {"base", "reconciler-runtime", "reconciler", "ollaya", "registry"}
RECONCILER = {"reconciler-runtime", "reconciler"}
STANDINS = {"ollaya", "registry"}


@pytest.mark.parametrize(
    ("file", "rebuilt"),
    [
        ("reconciler/main.py", {"reconciler"}),
        ("api/a.py", {"reconciler"}),
        ("cli/l.py", {"reconciler"}),
        ("requirements.txt", RECONCILER),
        ("pulumi", RECONCILER),
        ("provider", RECONCILER),
        ("images/reconciler.Containerfile", RECONCILER),
        ("images/reconciler.containerignore", RECONCILER),
        ("tools/standin/s.py", STANDINS),
        ("images/ollaya.sh", STANDINS),
        ("images/base.Containerfile", EVERYTHING),
        ("tools/other.py", set()),
        ("tests/t.py", set()),
    ],
)
def test_a_changed_file_rebuilds_what_contains_it_and_nothing_else(tree: Path, file: str, rebuilt: set[str]) -> None:
    before = images(tree)
    (tree / file).write_text("something else")
    after = images(tree)
    assert {name for name in before if before[name].key != after[name].key} == rebuilt

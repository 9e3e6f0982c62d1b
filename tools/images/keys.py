"""Keys over inputs: a build is repeated when its key changes, and only then."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

KEY_LENGTH = 16
"""Hex digits; also the length of the images' tags."""


def key_of(parts: Iterable[str | bytes]) -> str:
    """A key over a sequence of texts, in which no two sequences run into the same bytes."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:KEY_LENGTH]


def content_parts(root: Path, sources: Sequence[str]) -> list[str | bytes]:
    """Paths and contents of every file below the sources, as far as an image takes it.

    Args:
        root: what paths are relative to.
        sources: files or directories below it.
    """
    files = [file for source in sources for file in _files(root / source)]
    return [part for file in files for part in (file.relative_to(root).as_posix(), file.read_bytes())]


def program_part(program: Path) -> str:
    """Stands for an executable that is too large to read every time: another build has another size or time."""
    status = program.resolve().stat()
    return f"{program.name} {status.st_size} {status.st_mtime_ns}"


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)

"""Where manifests come from: files, directories, standard input."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from cli.errors import InputError
from cli.manifests.documents import Document, DocumentError, read_documents
from policy.navigation import Path as Place
from policy.navigation import at, text

STDIN: Final = "-"
MAX_BYTES: Final = 4 * 1024 * 1024
"""Of one file."""
_NO_MANIFEST: Final = "apiVersion or kind is missing"
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedManifest:
    """A manifest and where it is."""

    value: Any
    file: str
    document: Document
    place: Place
    """Where in the document the manifest is: the root, or an item of a list."""

    def line(self, path: Place = ()) -> int:
        """Return the line, counted from 1, of a part of the manifest."""
        return self.document.line((*self.place, *path))


@dataclass(frozen=True, slots=True)
class Manifests:
    """What was read.

    Attributes:
        manifests: In the order of the files and of the documents in them.
        passed_over: How many documents in directories were no manifests.
    """

    manifests: tuple[SourcedManifest, ...]
    passed_over: int


def standard_input() -> BinaryIO:
    """Return standard input, as a closed file if the process has none."""
    if sys.stdin is not None:
        return sys.stdin.buffer
    none = io.BytesIO()
    none.close()
    return none


def read_manifests(paths: Iterable[str], stdin: BinaryIO) -> Manifests:
    """Return the manifests in files, in directories with everything below them, and in standard input (`-`).

    A directory may hold other YAML as well, which is passed over; a file that is named has to hold manifests.

    Raises:
        InputError: Something cannot be read; the message names file and line.
    """
    manifests: list[SourcedManifest] = []
    passed_over = 0
    for path in paths:
        # Unlike Path.is_dir this does not raise for what cannot be a path: reading it says what is wrong.
        directory = path != STDIN and os.path.isdir(path)  # noqa: PTH112
        for file in _files(path) if directory else (path,):
            for document in _documents(file, stdin):
                if _is_manifest(document.value):
                    manifests += _expanded(document.value, document, file)
                elif directory:
                    passed_over += 1
                else:
                    raise InputError(f"{file}:{document.line(())}: is no manifest: {_NO_MANIFEST}")
    return Manifests(tuple(manifests), passed_over)


def read_document(path: str, stdin: BinaryIO) -> Any:
    """Return the only document of a file, None if it is empty.

    Raises:
        InputError: It cannot be read, or there are several documents.
    """
    documents = _documents(path, stdin)
    if len(documents) > 1:
        raise InputError(f"{path}:{documents[1].line(())}: there is more than one document")
    return documents[0].value if documents else None


def _files(directory: str) -> Iterator[str]:
    # Sorted, so that reports of equal trees are equal; links to directories are not followed.
    for parent, directories, names in os.walk(directory):
        directories.sort()
        for name in sorted(names):
            path = Path(parent, name)
            if path.suffix in _SUFFIXES and path.is_file():
                yield str(path)


def _documents(path: str, stdin: BinaryIO) -> list[Document]:
    try:
        return read_documents(_text(path, stdin))
    except DocumentError as error:
        raise InputError(f"{path}:{error.line}: {error}") from error


def _text(path: str, stdin: BinaryIO) -> str:
    if path == STDIN and stdin.closed:
        raise InputError(f"{path}: there is no standard input. Name a file instead.")
    try:
        data = stdin.read(MAX_BYTES + 1) if path == STDIN else _read(Path(path))
        if len(data) > MAX_BYTES:
            raise InputError(f"{path}: has more than {MAX_BYTES} bytes")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: is not UTF-8") from error


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _is_manifest(value: Any) -> bool:
    return bool(text(at(value, "apiVersion")) and text(at(value, "kind")))


def _expanded(value: Any, document: Document, file: str, place: Place = ()) -> Iterator[SourcedManifest]:
    """Yield a manifest of the document, or those in it if it is a list of them, or of lists."""
    if not value["kind"].endswith("List") or "items" not in value:
        yield SourcedManifest(value=value, file=file, document=document, place=place)
        return
    # The items of a list of one kind may leave out what the list already says.
    kind = value["kind"].removesuffix("List")
    inherited = {"apiVersion": value["apiVersion"], "kind": kind} if kind else {}
    items = [] if value["items"] is None else value["items"]
    if not isinstance(items, list):
        raise InputError(f"{file}:{document.line((*place, 'items'))}: the items of the {value['kind']} are no list")
    for index, item in enumerate(items):
        inner = (*place, "items", index)
        complete = {**inherited, **item} if isinstance(item, dict) else item
        if not _is_manifest(complete):
            line = document.line(inner)
            raise InputError(f"{file}:{line}: this item of the {value['kind']} is no manifest: {_NO_MANIFEST}")
        yield from _expanded(complete, document, file, inner)

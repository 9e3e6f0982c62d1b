"""The files of a state backend, for what the CLI has no verb for: what it leaves behind, and whose the locks are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from reconciler.driver.errors import BackendFilesError


class BackendFiles(Protocol):
    """Files below a backend's root. Calls block for seconds at most; every one may raise `BackendFilesError`."""

    def names(self, directory: str) -> list[str]:
        """Names of the files right in a directory; none when there is no such directory."""

    def read(self, path: str) -> bytes:
        """Content of a file."""

    def find(self, path: str, limit: int) -> bytes | None:
        """Content of a file, None when there is none; of one longer than `limit` bytes, so many and one more."""

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; those that are gone already do not matter."""


class DirectoryFiles:
    """The files of a `file://` backend."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, directory: str) -> list[str]:
        """See `BackendFiles`."""
        with _explained():
            try:
                return [path.name for path in (self._root / directory).iterdir() if path.is_file()]
            except (FileNotFoundError, NotADirectoryError):
                return []

    def read(self, path: str) -> bytes:
        """See `BackendFiles`."""
        with _explained():
            return (self._root / path).read_bytes()

    def find(self, path: str, limit: int) -> bytes | None:
        """See `BackendFiles`."""
        with _explained():
            try:
                with (self._root / path).open("rb") as file:
                    return file.read(limit + 1)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def delete(self, paths: Iterable[str]) -> None:
        """See `BackendFiles`."""
        with _explained():
            for path in paths:
                (self._root / path).unlink(missing_ok=True)

    def delete_matching(self, directory: str, patterns: Iterable[str]) -> None:
        """Delete the files at any depth below a directory whose names match one of the glob patterns."""
        with _explained():
            for pattern in patterns:
                for path in (self._root / directory).rglob(pattern):
                    path.unlink(missing_ok=True)


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackendFilesError(f"{error.filename}: {error.strerror}") from error


def open_files(backend_url: str) -> BackendFiles:
    """The files of a `file://` or `s3://` backend; asks nobody anything yet.

    Raises:
        BackendFilesError: It is another kind of backend. The message does not repeat the URL, which may hold secrets.
    """
    scheme = urlsplit(backend_url).scheme
    if scheme == "file":
        return DirectoryFiles(file_backend_root(backend_url))
    if scheme == "s3":
        # The AWS SDK takes a quarter of a second and 30 MiB, which only a bucket is worth.
        from reconciler.driver.bucket_files import BucketFiles  # noqa: PLC0415

        return BucketFiles.at(backend_url)
    raise BackendFilesError("the state backend must be a file:// or s3:// URL")


def url_for_cli(backend_url: str) -> str:
    """The backend's URL for a CLI that may be killed at any moment.

    In a directory the CLI keeps attributes beside each file, which it does not replace in one step: killed in between,
    it leaves a state that it cannot read any more. It is told to keep none (`metadata`, a parameter of Go CDK's
    fileblob), whatever the URL says.
    """
    parts = urlsplit(backend_url)
    if parts.scheme != "file":
        return backend_url
    others = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "metadata"]
    return urlunsplit(parts._replace(query=urlencode([*others, ("metadata", "skip")])))


def file_backend_root(backend_url: str) -> Path:
    """The directory of a `file://` backend."""
    parts = urlsplit(backend_url)
    return Path(unquote(parts.netloc + parts.path)).expanduser()

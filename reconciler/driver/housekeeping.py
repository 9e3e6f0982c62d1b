"""The CLI's files: those it leaves behind and nobody else removes, and those that show what a backend holds.

History is pruned in `file://` backends only. In a bucket the same must be done by a lifecycle rule on
`.pulumi/history/`; the CLI works with any part of it missing.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import unquote, urlsplit

from reconciler.driver.settings import DriverSettings


def prepare_directories(settings: DriverSettings) -> None:
    """Make the work directory ready: the project file, and no temporary directory of an earlier life."""
    shutil.rmtree(settings.temporary_directory, ignore_errors=True)
    settings.temporary_directory.mkdir(parents=True)
    settings.project_directory.mkdir(parents=True, exist_ok=True)
    project_file = settings.project_directory / "Pulumi.yaml"
    project_file.write_text(f"name: {settings.project}\nruntime: python\n")


def make_temporary_directory(settings: DriverSettings) -> Path:
    """A fresh TMPDIR for one operation; the caller removes it."""
    return Path(mkdtemp(dir=settings.temporary_directory))


def remove_directory(directory: Path) -> None:
    """Remove a temporary directory; what cannot be removed now goes at the next start."""
    shutil.rmtree(directory, ignore_errors=True)


def prune_history(settings: DriverSettings, stack: str, keep: int) -> None:
    """Delete all but the newest `keep` history entries of a stack. Only while no operation runs on it."""
    root = file_backend_root(settings.backend_url)
    if root is None:
        return
    directory = root / ".pulumi" / "history" / settings.project / stack
    if not directory.is_dir():
        return
    for name in superseded_history_files([path.name for path in directory.iterdir()], stack, keep):
        (directory / name).unlink(missing_ok=True)


def remove_remains(settings: DriverSettings, stack: str) -> None:
    """Delete what the CLI leaves of a stack that it has removed: its history, and the backup of its last state."""
    prune_history(settings, stack, keep=0)
    root = file_backend_root(settings.backend_url)
    if root is None:
        return
    directory = root / ".pulumi" / "stacks" / settings.project
    for suffix in ("", ".gz"):
        for end in (".bak", ".bak.attrs"):
            (directory / f"{stack}.json{suffix}{end}").unlink(missing_ok=True)


def superseded_history_files(names: list[str], stack: str, keep: int) -> list[str]:
    """Which files belong to entries older than the newest `keep`. Pure; leaves unknown files alone.

    An entry is all files `<stack>-<nanoseconds>.{history,checkpoint}.json…` of one time.
    """
    pattern = re.compile(rf"{re.escape(stack)}-(\d+)\.(?:history|checkpoint)\.json[a-z.]*")
    entries: defaultdict[int, list[str]] = defaultdict(list)
    for name in names:
        if match := pattern.fullmatch(name):
            entries[int(match[1])].append(name)
    newest_first = sorted(entries, reverse=True)
    return [name for time in newest_first[keep:] for name in entries[time]]


def is_known_missing(settings: DriverSettings, stack: str) -> bool:
    """Whether the backend's files show that there is no such stack; False where only the CLI can tell."""
    root = file_backend_root(settings.backend_url)
    if root is None:
        return False
    directory = root / ".pulumi" / "stacks" / settings.project
    # A backend without the directory is new, or laid out in another way.
    return directory.is_dir() and not any((directory / f"{stack}.json{suffix}").exists() for suffix in ("", ".gz"))


def file_backend_root(backend_url: str) -> Path | None:
    """The directory of a `file://` backend, or None for any other kind."""
    parts = urlsplit(backend_url)
    if parts.scheme != "file":
        return None
    path = unquote(parts.netloc + parts.path)
    return Path(path).expanduser()

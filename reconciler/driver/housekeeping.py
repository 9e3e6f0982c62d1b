"""The CLI's files: those it leaves behind and nobody else removes, and those that show what a backend holds.

History has no switch and no end in the CLI (spec pulumi, section 3.1), so it is pruned here after every operation, in a
directory as in a bucket. A bucket costs a listing for it and a call for each of the two files of an entry.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import urlsplit

from reconciler.driver import backend_layout as layout
from reconciler.driver.backend_files import BackendFiles, DirectoryFiles, file_backend_root
from reconciler.driver.settings import DriverSettings

DELETIONS_AT_ONCE = 100
"""Files of history that go after one operation; where much has piled up, the next operations go on."""


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


def prune_history(files: BackendFiles, project: str, stack: str, keep: int) -> None:
    """Delete the oldest history entries of a stack, all but the newest `keep`. Only while no operation runs on it.

    Raises:
        BackendFilesError: The backend does not let it.
    """
    directory = layout.history_directory(project, stack)
    superseded = layout.superseded_history_files(files.names(directory), stack, keep)
    files.delete(f"{directory}/{name}" for name in superseded[:DELETIONS_AT_ONCE])


def remove_remains(files: BackendFiles, project: str, stack: str) -> None:
    """Delete what the CLI leaves of a stack that it has removed: its history, and the backup of its last state.

    Raises:
        BackendFilesError: The backend does not let it.
    """
    prune_history(files, project, stack, keep=0)
    directory = layout.stacks_directory(project)
    files.delete(f"{directory}/{name}" for name in layout.backup_names(stack))


def discard_state(files: BackendFiles, project: str, stack: str) -> None:
    """Delete a stack's state, and what may keep the CLI from reading it: it cannot remove what is unreadable.

    Raises:
        BackendFilesError: The backend does not let it.
    """
    directory = layout.stacks_directory(project)
    names = (
        *layout.checkpoint_names(stack),
        *layout.sidecar_names(stack),
        layout.foreign_checkpoint_name(stack),
    )
    files.delete(f"{directory}/{name}" for name in names)


def remove_half_written(settings: DriverSettings) -> None:
    """Delete what a CLI that was killed while it wrote may have left in a directory. Only while no operation runs.

    The attributes beside a state are not replaced in one step, and a state beside broken ones cannot be read; nobody
    needs them, so all go. A bucket has neither.

    Raises:
        BackendFilesError: The directory does not let it.
    """
    if urlsplit(settings.backend_url).scheme == "file":
        DirectoryFiles(file_backend_root(settings.backend_url)).delete_matching(layout.ROOT, layout.HALF_WRITTEN)


def is_known_missing(settings: DriverSettings, stack: str) -> bool:
    """Whether a `file://` backend shows that there is no such stack; False where only the CLI can tell."""
    if urlsplit(settings.backend_url).scheme != "file":
        return False
    directory = file_backend_root(settings.backend_url) / layout.stacks_directory(settings.project)
    try:
        # A backend without the directory is new, or laid out in another way.
        return directory.is_dir() and not any((directory / name).exists() for name in layout.checkpoint_names(stack))
    except OSError:
        return False

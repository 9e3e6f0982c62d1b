"""Where the CLI keeps what in a backend of its own kind, and which of it is no longer needed. Pure.

Paths are relative to the backend's root and use `/`, in a directory as in a bucket (spec pulumi, sections 3.1, 3.2).
"""

from __future__ import annotations

import re
from collections import defaultdict

_CHECKPOINT_ENDS = ("", ".gz")
_FOREIGN_CHECKPOINT_END = ".zst"
_BACKUP_ENDS = (".bak", ".bak.attrs")
_SIDECAR_END = ".attrs"

ROOT = ".pulumi"
"""Directory of everything that the CLI keeps."""
HALF_WRITTEN = (f"*{_SIDECAR_END}", "*.tmp")
"""Patterns of what only a CLI stopped in the middle of a write leaves, and of attributes, which nobody asks for."""


STACKS_DIRECTORY = f"{ROOT}/stacks"
"""Directory of all projects' states. A file right in it is a state of the layout before there were projects."""
LAYOUT_FILE = f"{ROOT}/meta.yaml"
LAYOUT = b"version: 1"
"""What the file says; by anything else the CLI looks for states elsewhere."""


def stacks_directory(project: str) -> str:
    """Directory of the project's states."""
    return f"{STACKS_DIRECTORY}/{project}"


def history_directory(project: str, stack: str) -> str:
    """Directory of what is kept of a stack's past operations."""
    return f"{ROOT}/history/{project}/{stack}"


def locks_directory(project: str, stack: str) -> str:
    """Directory of a stack's locks, a file each; the first part is the literal word."""
    return f"{ROOT}/locks/organization/{project}/{stack}"


def checkpoint_names(stack: str) -> tuple[str, ...]:
    """Names that a stack's state may have in the directory of states, plain and compressed."""
    return tuple(f"{stack}.json{end}" for end in _CHECKPOINT_ENDS)


def foreign_checkpoint_name(stack: str) -> str:
    """Name of a state that the CLI would read, and never writes as it is run here."""
    return f"{stack}.json{_FOREIGN_CHECKPOINT_END}"


def sidecar_names(stack: str) -> tuple[str, ...]:
    """Names that the attributes of a stack's state may have, which a CLI run by hand writes beside it."""
    return tuple(f"{name}{_SIDECAR_END}" for name in checkpoint_names(stack))


def stack_names(names: list[str]) -> tuple[str, ...]:
    """Names of the stacks whose states have these names in the directory of states, sorted."""
    ends = tuple(f".json{end}" for end in _CHECKPOINT_ENDS)
    return tuple(sorted({name.removesuffix(end) for end in ends for name in names if name.endswith(end)}))


def backup_names(stack: str) -> tuple[str, ...]:
    """Names that the copy of a stack's last state may have."""
    return tuple(f"{name}{end}" for name in checkpoint_names(stack) for end in _BACKUP_ENDS)


def superseded_history_files(names: list[str], stack: str, keep: int) -> list[str]:
    """Which files belong to entries older than the newest `keep`, oldest first. Leaves unknown files alone.

    An entry is all files `<stack>-<nanoseconds>.{history,checkpoint}.json…` of one time.
    """
    pattern = re.compile(rf"{re.escape(stack)}-(\d+)\.(?:history|checkpoint)\.json[a-z.]*")
    entries: defaultdict[int, list[str]] = defaultdict(list)
    for name in names:
        if match := pattern.fullmatch(name):
            entries[int(match[1])].append(name)
    oldest_first = sorted(entries)
    return [name for time in oldest_first[: max(0, len(entries) - keep)] for name in entries[time]]

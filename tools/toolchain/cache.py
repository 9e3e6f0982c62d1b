"""Where built programs live: one directory per program, version and content of everything that goes into the build."""

import fcntl
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.toolchain.versions import Program


def cache_root() -> Path:
    """The user's cache of the toolchain (XDG Base Directory Specification: a relative path counts as unset)."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    base = configured if configured.is_absolute() else Path.home() / ".cache"
    return base / "decisionmodel" / "toolchain"


def fingerprint(program: Program) -> str:
    """Sixteen hex digits over the module's files and the build flags: equal inputs share one build."""
    inputs = [program.module / "go.mod", program.module / "go.sum", *sorted(program.module.glob("*.go"))]
    digest = hashlib.sha256()
    for part in (
        *(piece for path in inputs for piece in (path.name.encode(), path.read_bytes())),
        *(flag.encode() for flag in (*program.flags, program.package, *program.components)),
    ):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]


def build_directory(program: Program) -> Path:
    """The directory that holds the finished build of a program, whether it exists yet or not."""
    return cache_root() / f"{program.name}-{program.version}-{fingerprint(program)}"


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Let only one process at a time fill a directory of the cache; the others wait here."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for the process that makes {directory.name}", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield

"""The control group above all Pods of one cluster, in every hierarchy that is mounted (version 1, 2 or both)."""

import time
from pathlib import Path

from tools.cluster.errors import ClusterError

_MOUNTS = Path("/proc/self/mounts")
_EMPTYING_SECONDS = 10.0
_POLL_SECONDS = 0.05


def hierarchies(mounts: str) -> tuple[Path, ...]:
    """Where control group file systems are mounted, from the text of /proc/self/mounts."""
    entries = [line.split() for line in mounts.splitlines()]
    return tuple(Path(entry[1]) for entry in entries if entry[2] in {"cgroup", "cgroup2"})


def create_control_group(name: str) -> None:
    """Create the group; kubelet insists that it exists."""
    for hierarchy in hierarchies(_MOUNTS.read_text()):
        (hierarchy / name).mkdir(exist_ok=True)


def remove_control_group(name: str) -> None:
    """Remove the group and all below it, once its processes are gone.

    Raises:
        ClusterError: something still lives in it.
    """
    deadline = time.monotonic() + _EMPTYING_SECONDS
    for hierarchy in hierarchies(_MOUNTS.read_text()):
        group = hierarchy / name
        while group.exists() and not _removed(group):
            if time.monotonic() > deadline:
                raise ClusterError(f"{group} cannot be removed: processes of the cluster are still in it")
            time.sleep(_POLL_SECONDS)


def _removed(group: Path) -> bool:
    # The kernel lets go of a dead process's group a little after the process is gone.
    children = [path for path in group.rglob("*") if path.is_dir()]
    try:
        for directory in [*sorted(children, key=lambda path: len(path.parts), reverse=True), group]:
            directory.rmdir()
    except OSError:
        return False
    return True

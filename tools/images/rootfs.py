"""The Debian root file system that stands in for a base image where no registry is at hand."""

import platform
from collections.abc import Sequence
from pathlib import Path

from tools.images.commands import run

PACKAGES = ("ca-certificates", "python3", "python3-pip")
"""What the images need of their base beside a shell; pip only while the reconciler's image is built."""

_SOURCES = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")


def rootfs_command(target: Path, suite: str, sources: Sequence[Path]) -> list[str]:
    """The command that writes the root file system as a tar archive.

    Args:
        target: the archive.
        suite: Debian's code name.
        sources: files that say where packages come from; without any, mmdebstrap's own default.
    """
    return [
        *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}"),
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT),
        *(suite, str(target), *map(str, sources)),
    ]


def machine_suite() -> str:
    """The code name of the machine's Debian, which its package sources can serve."""
    return platform.freedesktop_os_release().get("VERSION_CODENAME", "bookworm")


def machine_sources() -> list[Path]:
    """The machine's own package sources: it may reach packages only through them."""
    return [path for path in _SOURCES if path.is_file() and path.read_text().strip()][:1]


def make_rootfs(target: Path) -> None:
    """Write the root file system to `target`.

    Raises:
        ImageBuildError: mmdebstrap is missing or failed.
    """
    run(rootfs_command(target, machine_suite(), machine_sources()))

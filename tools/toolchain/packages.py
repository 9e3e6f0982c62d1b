"""What the local cluster and the image builds take from Debian."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.toolchain.cache import cache_root, exclusive
from tools.toolchain.errors import ToolMissingError

_SERVICE_POLICY = Path("/usr/sbin/policy-rc.d")
_ACTION_FORBIDDEN = "#!/bin/sh\nexit 101\n"
_DPKG_LOCK_SECONDS = 300


def missing_packages(wanted: Sequence[str], dpkg_listing: str) -> list[str]:
    """Which packages are not installed.

    Args:
        wanted: names of Debian packages.
        dpkg_listing: lines of ``<status> <package>``, as ``dpkg-query`` prints them.
    """
    installed = {
        name for status, _, name in (line.partition(" ") for line in dpkg_listing.splitlines()) if status == "installed"
    }
    return [name for name in wanted if name not in installed]


def install_missing(wanted: Sequence[str]) -> list[str]:
    """Install what is missing and leave no service of it running; quiet when nothing is.

    Returns:
        The packages that were installed now.

    Raises:
        ToolMissingError: this is no Debian, not root, or apt-get failed.
    """
    if not missing_packages(wanted, _dpkg_listing(wanted)):
        return []
    with exclusive(cache_root() / "debian-packages"):
        # Whoever was at it meanwhile may have installed them.
        missing = missing_packages(wanted, _dpkg_listing(wanted))
        if missing:
            _install(missing)
        return missing


def _install(missing: Sequence[str]) -> None:
    by_hand = f"install by hand: {' '.join(missing)}"
    if shutil.which("apt-get") is None:
        raise ToolMissingError(f"this machine has no apt-get: {by_hand}")
    if os.geteuid() != 0:
        raise ToolMissingError(f"system packages are missing and only root can install them: {by_hand}")
    with service_starts_forbidden(_SERVICE_POLICY):
        _apt_get("update")
        _apt_get("install", "--yes", "--no-install-recommends", *missing)


def _dpkg_listing(wanted: Sequence[str]) -> str:
    if shutil.which("dpkg-query") is None:
        return ""
    command = ["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package}\n", *wanted]
    # Exit code 1 says that some package is unknown, which is an answer and no failure.
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _apt_get(*arguments: str) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    # Other users of the machine's package system are waited for, too.
    command = ["apt-get", "--quiet", "--quiet", f"--option=DPkg::Lock::Timeout={_DPKG_LOCK_SECONDS}", *arguments]
    run = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        raise ToolMissingError(f"{' '.join(command)} failed:\n{run.stdout}")


@contextmanager
def service_starts_forbidden(policy: Path) -> Iterator[None]:
    """Forbid package scripts to start services (invoke-rc.d's policy layer) and put back what was there before."""
    previous = policy.with_name(f"{policy.name}.before-decisionmodel")
    # What an interrupted run put aside is the original; what is there now is ours.
    if policy.exists() and not previous.exists():
        policy.rename(previous)
    policy.write_text(_ACTION_FORBIDDEN)
    policy.chmod(0o755)
    try:
        yield
    finally:
        if previous.exists():
            previous.replace(policy)
        else:
            policy.unlink()

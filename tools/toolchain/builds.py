"""Building a program once and finding it again."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from tools.toolchain.cache import build_directory, exclusive
from tools.toolchain.errors import BuildFailedError, NotBuiltError
from tools.toolchain.progress import follow
from tools.toolchain.pypi import go
from tools.toolchain.versions import OLDEST_FITTING_PULUMI, PROGRAMS, Program

_SHOWN_LOG_LINES = 20


def build(name: str) -> Path:
    """Make a program available: the machine's own where one fits, the cached build, or a build now.

    Args:
        name: a program of the version table.

    Returns:
        The executable.

    Raises:
        BuildFailedError: the compiler refused; the message ends with its last lines.
        ToolMissingError: there is no Go toolchain and none can be installed.
    """
    program = PROGRAMS[name]
    ready = _ready(program)
    if ready is not None:
        return ready
    directory = build_directory(program)
    with exclusive(directory):
        if not directory.exists():
            _build_into(directory, program)
    return directory / program.executable


def program_path(name: str) -> Path:
    """The executable of a program that is ready to run.

    Raises:
        NotBuiltError: it has not been built.
    """
    ready = _ready(PROGRAMS[name])
    if ready is None:
        raise NotBuiltError(f"{name} has not been built: run python3 -m tools.toolchain build {name}")
    return ready


def kubernetes_component(component: str) -> Path:
    """The combined Kubernetes executable under the name of one of its components, such as ``kubelet``.

    Raises:
        NotBuiltError: it has not been built.
    """
    return program_path("kubernetes").with_name(component)


def is_fitting_pulumi_version(text: str) -> bool:
    """Whether the output of ``pulumi version`` names a release that works like the built one."""
    match = re.fullmatch(r"v(\d+)\.(\d+)\.\d+\S*", text.strip())
    if match is None:
        return False
    major, minor = int(match[1]), int(match[2])
    return major == OLDEST_FITTING_PULUMI[0] and minor >= OLDEST_FITTING_PULUMI[1]


def _ready(program: Program) -> Path | None:
    if program.name == "pulumi" and (installed := _installed_pulumi()) is not None:
        return installed
    executable = build_directory(program) / program.executable
    return executable if executable.exists() else None


def _installed_pulumi() -> Path | None:
    found = shutil.which("pulumi")
    if found is None:
        return None
    environment = os.environ | {"PULUMI_SKIP_UPDATE_CHECK": "true"}
    version = subprocess.run([found, "version"], capture_output=True, text=True, check=False, env=environment)
    fitting = version.returncode == 0 and is_fitting_pulumi_version(version.stdout)
    return Path(found) if fitting else None


def _build_into(directory: Path, program: Program) -> None:
    go_command = go()
    log = directory.with_name(f"{directory.name}.log")
    scratch = directory.with_name(f"{directory.name}.unfinished")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        _compile(go_command, program, scratch / program.executable, log)
        for component in program.components:
            (scratch / component).symlink_to(program.executable)
        # The rename is what publishes the build: nobody ever sees half of one.
        scratch.rename(directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _compile(go_command: Path, program: Program, executable: Path, log: Path) -> None:
    command = [str(go_command), "build", *program.flags, "-o", str(executable), program.package]
    # Compilers live for seconds: collecting their garbage less often saves a fifth of all time, for some more memory.
    environment = {"GOGC": "400"} | os.environ | {"CGO_ENABLED": "0"}
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, cwd=program.module, env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        expected = f"about {program.minutes} min the first time"
        code = follow(process, f"building {program.name} {program.version}", expected)
    if code != 0:
        last_lines = "\n".join(log.read_text(errors="replace").splitlines()[-_SHOWN_LOG_LINES:])
        raise BuildFailedError(f"go build of {program.name} failed (whole log in {log}):\n{last_lines}")

"""Command line of the toolchain: build programs, say where they are, install system packages."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.command_line import exit_code
from tools.toolchain.builds import build, program_path
from tools.toolchain.errors import ToolchainError
from tools.toolchain.packages import install_missing
from tools.toolchain.plugins import prepare_pulumi_home
from tools.toolchain.pypi import kubectl
from tools.toolchain.versions import DEBIAN_PACKAGES, PROGRAMS


def main(arguments: Sequence[str]) -> int:
    """Run one command.

    Returns:
        0, or after a failure or Ctrl-C that of `exit_code`.
    """
    options = _parser().parse_args(arguments)
    step = "The same command again goes on with what is built."
    return exit_code("toolchain", lambda: _run(options), ToolchainError, next_step=step)


def _run(options: argparse.Namespace) -> int:
    match options.command:
        case "build":
            for name in options.programs or PROGRAMS:
                print(build(name))
        case "path":
            print(kubectl() if options.program == "kubectl" else program_path(options.program))
        case "pulumi-home":
            prepare_pulumi_home(options.directory)
        case "packages":
            installed = install_missing(DEBIAN_PACKAGES)
            if installed:
                print(f"installed {' '.join(installed)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m tools.toolchain", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    builds = commands.add_parser("build", help="build programs that are not in the cache yet (default: all)")
    builds.add_argument("programs", nargs="*", metavar="PROGRAM", type=_program, help=", ".join(PROGRAMS))
    path = commands.add_parser("path", help="print where a built program (or kubectl) is")
    path.add_argument("program", choices=[*PROGRAMS, "kubectl"])
    home = commands.add_parser("pulumi-home", help="install the provider plugin into a Pulumi home directory")
    home.add_argument("directory", type=Path)
    commands.add_parser("packages", help="install the missing system packages (Debian, root)")
    return parser


def _program(name: str) -> str:
    if name not in PROGRAMS:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(PROGRAMS)}")
    return name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

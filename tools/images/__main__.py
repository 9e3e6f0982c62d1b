"""Command line of the image builds: prints the archives, in the order in which they are to be imported."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from tools.command_line import exit_code
from tools.images.archives import Archive
from tools.images.builds import (
    Progress,
    build_base_image,
    build_reconciler_image,
    build_registry_image,
    build_runtime_image,
)
from tools.images.errors import ImageBuildError
from tools.toolchain.errors import ToolchainError

_BUILDS: Mapping[str, Callable[[Progress], Archive]] = {
    "base": build_base_image,
    "runtime": build_runtime_image,
    "registry": build_registry_image,
    "reconciler": build_reconciler_image,
}


def main(arguments: Sequence[str]) -> int:
    """Build what was asked for.

    Returns:
        0, or after a failure or Ctrl-C that of `exit_code`.
    """
    parser = argparse.ArgumentParser(prog="python3 -m tools.images", description=__doc__)
    parser.add_argument("image", choices=[*_BUILDS, "all"], help="runtime and registry are the stand-ins")
    asked = parser.parse_args(arguments).image
    return exit_code("images", lambda: _build(_BUILDS if asked == "all" else [asked]), ImageBuildError, ToolchainError)


def _build(names: Iterable[str]) -> int:
    archives = [_BUILDS[name](_say) for name in names]
    for needed in dict.fromkeys(member for archive in archives for member in archive.lineage()):
        print(f"{needed.name} {needed.path}")
    return 0


def _say(line: str) -> None:
    print(f"images: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

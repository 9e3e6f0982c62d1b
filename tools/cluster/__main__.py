"""Command line of the local clusters."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.cluster.clusters import Cluster, Status, cluster, up
from tools.cluster.errors import ClusterError
from tools.command_line import exit_code


def main(arguments: Sequence[str]) -> int:
    """Run one command.

    Returns:
        0; 1 for the status of a cluster that is not healthy; after a failure or Ctrl-C that of `exit_code`.
    """
    options = _parser().parse_args(arguments)
    return exit_code(f"cluster {options.name}", lambda: _run(options), ClusterError)


def _run(options: argparse.Namespace) -> int:
    match options.command:
        case "up":
            running = up(options.name, _progress_from(time.monotonic()))
            print(f"cluster {running.name} is up: export KUBECONFIG={running.kubeconfig}")
        case "down":
            cluster(options.name).down(everything=options.everything)
        case "load":
            print("\n".join(cluster(options.name).load(options.archive, options.names)))
        case "status":
            return _show(cluster(options.name))
    return 0


def _show(shown: Cluster) -> int:
    status = shown.status()
    print("\n".join(status_lines(status)))
    return 0 if status.is_healthy else 1


def status_lines(status: Status) -> list[str]:
    """The status for people: one line per process, and what they amount to."""
    lines = [f"{name:<24} {'running' if lives else 'ended'}" for name, lives in status.components.items()]
    api, node = ("ready" if ready else "not ready" for ready in (status.serves, status.node_is_ready))
    return [*lines, f"{'API server':<24} {api}", f"{'node':<24} {node}"]


def _progress_from(started: float) -> Callable[[str], None]:
    def progress(step: str) -> None:
        print(f"{time.monotonic() - started:5.1f} s  {step}", file=sys.stderr, flush=True)

    return progress


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    _command(commands, "up", "start a cluster, or do nothing where it runs")
    down = _command(
        commands, "down", "end a cluster; its objects and volumes are gone, its directory under .local stays"
    )
    down.add_argument(
        "--everything", action="store_true", help="also remove that directory: images, logs, certificates, Pulumi state"
    )
    _command(commands, "status", "say what of a cluster runs")
    load = _command(commands, "load", "bring an image archive into a cluster")
    load.add_argument("archive", type=Path, help="a docker-archive or OCI archive with one image")
    load.add_argument(
        "--as", dest="names", nargs="+", default=[], metavar="REF", help="names for the image (default: its own)"
    )
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, what: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=what)
    command.add_argument("name", help="the cluster's name")
    return command


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

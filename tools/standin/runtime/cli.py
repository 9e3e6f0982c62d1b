"""The command line of ``ollaya`` (spec sections 1.1, 1.5 and 5.3): exit 0, 1 with ``Error: …``, 2 for bad arguments."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from .errors import StandinError
from .settings import Settings, parse_settings


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        return _run(parsed, parse_settings(os.environ))
    except StandinError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ollaya")
    parser.add_argument("-v", "--version", action="store_true", help="print the version of the server, or of this")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("serve", help="start the daemon")
    for name in ("list", "ls"):
        commands.add_parser(name, help="list models in the store")
    commands.add_parser("ps", help="list loaded models")
    pull = commands.add_parser("pull", help="pull a model")
    pull.add_argument("model")
    pull.add_argument("--insecure", action="store_true", help="accepted, without effect")
    for name in ("show", "rm"):
        commands.add_parser(name).add_argument("model")
    copy = commands.add_parser("cp", help="give a model a second name")
    copy.add_argument("source")
    copy.add_argument("destination")
    stop = commands.add_parser("stop", help="unload a model, or stop the server")
    stop.add_argument("model", nargs="?")
    return parser


def _run(parsed: argparse.Namespace, settings: Settings) -> int:
    if parsed.command == "serve":
        from .serve import serve  # noqa: PLC0415 - each command loads what it needs, memory counts in a Pod

        return serve(settings)
    from . import client_commands  # noqa: PLC0415 - see above

    if parsed.version:
        return client_commands.version(settings)
    if parsed.command is None:
        _parser().print_help()
        return 0
    return client_commands.run(parsed, settings)

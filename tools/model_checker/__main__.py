"""`python -m tools.model_checker --depth N`: check the rollout state machine further than the tests do."""

from __future__ import annotations

import argparse

from tools.model_checker.search import Scope, Start, check
from tools.model_checker.violation import Property


def main() -> int:
    """Check, print what was found; the exit code is 1 when a property is broken."""
    arguments = _arguments()
    broken = False
    for start in arguments.start or Start:
        scope = Scope(
            depth=arguments.depth,
            start=start,
            ignored=frozenset(arguments.ignore),
            limit=arguments.limit,
        )
        report = check(scope)
        print(f"from {start}: {report}")
        broken |= report.violation is not None
    return int(broken)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.model_checker", description=__doc__)
    parser.add_argument("--depth", type=int, default=1, help="how many disturbances a run has at most (1)")
    parser.add_argument(
        "--start", type=Start, action="append", choices=tuple(Start), help="where runs begin (everywhere)"
    )
    parser.add_argument("--limit", type=int, help="check at most this many states")
    parser.add_argument(
        "--ignore", type=Property, action="append", default=[], choices=tuple(Property), help="a property not to check"
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())

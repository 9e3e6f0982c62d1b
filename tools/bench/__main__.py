"""`make bench`: measure, side by side in one run, and print tables (or JSON).

Every way is done equally often and alternately, so that whatever else the machine does hits both.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass

from reconciler.driver import DriverError
from tools.bench import operations, switching
from tools.bench.figures import Comparison, comparison_table, median_steps, shares_table, spread_table
from tools.bench.rollouts import STEPS, RolloutBench, Rollouts
from tools.bench.switching import Switches, SwitchingBench
from tools.cluster.errors import ClusterError
from tools.command_line import exit_code
from tools.deploy import DeployError, PulumiStack
from tools.environment import Environment, prepare, start
from tools.images import ImageBuildError
from tools.kubectl import KubectlError, WaitError
from tools.toolchain import ToolchainError

GOAL = 2.0
"""The platform may take this many times as long as a person who makes no mistake and checks nothing."""

_EXPLANATION = """\
By hand means kubectl and the very same objects: store and Job, wait for Complete, Deployment and Service, first answer.
The readiness gate is left out there, which is the fastest way by hand: nobody proves what the runtime has loaded."""
_ABOUT_OPERATIONS = """\
The bare CLI runs `pulumi up` as a person does, with the same program on disk; the driver's Python is warm already."""
_WAYS = ("platform", "by hand")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All figures of one run."""

    rollouts: Rollouts
    switches: Switches
    operations: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where it was measured: usable cores, and how many processes wanted one in the minute before."""

    cores: int
    load: float


def main() -> int:
    """Measure; the exit code is 0 when everything could be measured."""
    arguments = _arguments()
    failures = (
        *(ClusterError, DeployError, DriverError, ImageBuildError, KubectlError, ToolchainError),
        *(WaitError, operations.OperationFailedError),
    )
    return exit_code("bench", lambda: _bench(arguments), *failures)


def _bench(arguments: argparse.Namespace) -> int:
    machine = Machine(cores=len(os.sched_getaffinity(0)), load=round(os.getloadavg()[0], 2))
    environment = start(arguments.cluster, prepare(_say), _say)
    try:
        measured = _measure(environment, arguments)
    finally:
        if not arguments.keep:
            environment.cluster.down()
    written = _as_json if arguments.output == "json" else _as_text
    print(written(machine, measured))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--cluster", default="bench", help="the local cluster, started if need be (bench)")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running")
    parser.add_argument("--rounds", type=_positive, default=5, help="rollouts in each way (5)")
    parser.add_argument("--switches", type=_positive, default=5, help="promotions, each with a rollback (5)")
    parser.add_argument("--operations", type=_positive, default=7, help="operations of each kind in each way (7)")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="format of the figures (text)")
    return parser.parse_args()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _measure(environment: Environment, arguments: argparse.Namespace) -> Measured:
    PulumiStack(environment.cluster, "dev").up(environment.images.reconciler.name)
    # The model that comes with the environment would only use up the machine.
    environment.kubectl.run("delete", "decisionmodels", "--all", "-n", "default")
    return Measured(
        rollouts=RolloutBench(environment).measure(arguments.rounds, _say),
        switches=SwitchingBench(environment).measure(arguments.switches, _say),
        operations=operations.measure(environment, arguments.operations, _say),
    )


def _rollout_comparison(rollouts: Rollouts) -> Comparison:
    ours, theirs = (tuple(each.seconds for each in way) for way in (rollouts.platform, rollouts.by_hand))
    return Comparison(title="from apply to the first answer", ours=(_WAYS[0], ours), theirs=(_WAYS[1], theirs))


def _steps(rollouts: Rollouts) -> dict[str, list[dict[str, float]]]:
    return {
        way: [dict(each.steps) for each in rounds]
        for way, rounds in zip(_WAYS, (rollouts.platform, rollouts.by_hand), strict=True)
    }


def _as_text(machine: Machine, measured: Measured) -> str:
    comparison, switches = _rollout_comparison(measured.rollouts), measured.switches
    verdict = "reached" if comparison.ratio <= GOAL else "missed"
    return "\n".join(
        (
            f"{machine.cores} cores, load {machine.load:g} at the start; keep figures only of a machine that was idle.",
            "",
            "Rollouts",
            _EXPLANATION,
            "",
            comparison_table([comparison]),
            f"The goal, a ratio of at most {GOAL:g}, is {verdict}.",
            "",
            "Where the time goes (medians)",
            shares_table(list(STEPS.values()), _steps(measured.rollouts)),
            "",
            "From the decision to the EndpointSlice, both revisions ready",
            spread_table({"promotion": switches.promotions, "rollback": switches.rollbacks}),
            f"The goal is {switching.GOAL_SECONDS:g} s for 95 of 100.",
            "",
            "Stack operations",
            _ABOUT_OPERATIONS,
            "",
            comparison_table(measured.operations),
        )
    )


def _as_json(machine: Machine, measured: Measured) -> str:
    rollouts = measured.rollouts
    steps = {way: median_steps(list(STEPS.values()), rounds) for way, rounds in _steps(rollouts).items()}
    figures = {
        "machine": {"cores": machine.cores, "loadBefore": machine.load},
        "rollout": {**_rollout_comparison(rollouts).as_json(), "goal": GOAL, "medianSeconds": steps},
        "switches": switching.as_json(measured.switches),
        "operations": [each.as_json() for each in measured.operations],
    }
    return json.dumps(figures, indent=2)


def _say(line: str) -> None:
    # The figures alone go to standard output.
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

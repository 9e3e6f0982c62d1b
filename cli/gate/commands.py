"""The commands of `dmctl gate`: options in, words or JSON and exit codes out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from cli.connection import ClusterOptions, cluster_options
from cli.errors import ExitCode, InputError
from cli.gate.suppositions import DISCORDANCE, MARGIN
from cli.texts import printable

Command = TypeVar("Command", bound=Callable[..., Any])

_SHARE: Final = click.FloatRange(min=1e-6, max=1, max_open=True)
_SURENESS: Final = click.FloatRange(min=0.5, max=1, min_open=True, max_open=True)

_MOST_ITEMS: Final = 20_000
"""What a second of computing answers; a data set has at most 5000 cases."""


@click.group(help="Plan, read and reproduce verdicts of the statistical gate.")
def gate() -> None:
    """Group the commands."""


def _output(command: Command) -> Command:
    """Give a command the choice between words and JSON."""
    choice = click.Choice(("text", "json"))
    decorated: Command = click.option("-o", "--output", type=choice, default="text", help="text by default.")(command)
    return decorated


def _figure(name: str, kind: click.FloatRange, default: float, text: str) -> Callable[[Command], Command]:
    """Give a command a number with a default that its help shows."""
    return click.option(name, type=kind, default=default, show_default=True, help=text)


@gate.command(short_help="Say how many golden items a gate needs, or what so many tell.")
@_figure("--margin", _SHARE, MARGIN, "How much worse still counts as no worse, as a share.")
@_figure("--discordance", _SHARE, DISCORDANCE, "Share of items that only one revision gets right.")
@_figure("--confidence", _SURENESS, 0.95, "How sure a verdict must be.")
@_figure("--power", _SURENESS, 0.8, "How often an equally good candidate is to pass.")
@click.option("--items", type=click.IntRange(1, _MOST_ITEMS), help="Say what so many items can tell instead.")
@click.option("--labels", type=click.IntRange(0, _MOST_ITEMS), default=0, help="Labels of all questions; 0 by default.")
@_output
def plan(  # noqa: PLR0913 - the options of the command line
    margin: float, discordance: float, confidence: float, power: float, items: int | None, labels: int, output: str
) -> None:
    """Say how many golden items a gate needs, or with --items what so many can tell."""
    from cli.gate import planning  # noqa: PLC0415 - together with the planner, for those who plan
    from reconciler.evaluation import planner  # noqa: PLC0415 - likewise

    try:
        aim = planner.Aim(margin=margin, discordance=discordance, confidence=confidence, power=power)
    except ValueError as error:
        # What is no number at all is in no range either.
        raise InputError(str(error)) from error
    as_json = output == "json"
    if items is None:
        planned = planner.plan(aim)
        alarms = planning.Alarms.of(confidence, planned.items, labels)
        click.echo(planning.plan_json(aim, planned, alarms) if as_json else planning.plan_text(aim, planned, alarms))
        return
    found, alarms = planner.detectable(aim, items, {}), planning.Alarms.of(confidence, items, labels)
    if as_json:
        click.echo(planning.detectable_json(aim, items, found, alarms))
    else:
        click.echo(planning.detectable_text(aim, found, alarms))


@gate.command(short_help="Show a DecisionModel's last evaluation and what it rests on.")
@click.argument("name")
@_output
@cluster_options
def show(name: str, output: str, kubeconfig: str | None, context: str | None, namespace: str | None) -> None:
    """Show the last evaluation of a DecisionModel, and what its verdict rests on."""
    from cli.gate.evidence import decoded, last_evaluation  # noqa: PLC0415 - brings the SDK, which plan does not need
    from cli.gate.words import evaluation_lines, evidence_lines  # noqa: PLC0415 - likewise

    options = ClusterOptions(kubeconfig=kubeconfig, context=context, namespace=namespace)
    found = asyncio.run(last_evaluation(name, options))
    evidence = None if found.document is None else decoded(found.document, f"the evidence of {found.name}")
    if output == "json":
        verdict = None if evidence is None else json.loads(evidence.verdict.canonical())
        click.echo(json.dumps({"name": found.name, "evaluation": found.status.dump(), "verdict": verdict}, indent=2))
        return
    lines = [*evaluation_lines(found.name, found.status), *(() if evidence is None else evidence_lines(evidence))]
    click.echo("\n".join(map(printable, lines)))


@gate.command(short_help="Judge again from kept evidence, and compare byte for byte.")
@click.argument("source", metavar="FILE|NAME")
@cluster_options
def recompute(source: str, kubeconfig: str | None, context: str | None, namespace: str | None) -> int:
    """Judge again from the evidence in FILE, or of the DecisionModel NAME, and compare byte for byte.

    Ends with 0 when the verdict is the stored one, with 1 when it is another, and with 3 when it cannot be judged.
    """
    from cli.gate.evidence import decoded, last_evaluation, read_file  # noqa: PLC0415 - brings the SDK
    from reconciler.evaluation.judgement import recompute as judge_again  # noqa: PLC0415 - brings numpy and scipy

    options = ClusterOptions(kubeconfig=kubeconfig, context=context, namespace=namespace)
    document = read_file(source) if Path(source).is_file() else None
    if document is None:
        document = asyncio.run(last_evaluation(source, options)).document
    if document is None:
        raise InputError(f"no evidence of {source} is kept: only rollout.evaluation.statistics makes some")
    evidence = decoded(document, source)
    verdict = judge_again(evidence)
    stored = evidence.verdict
    if verdict.canonical() == stored.canonical():
        click.echo(printable(f"{source}: reproduced: {stored.decision} ({stored.code}): {stored.text}"))
        return ExitCode.CLEAN
    click.echo(printable(f"{source}: stored {stored.decision} ({stored.code}): {stored.text}"))
    click.echo(printable(f"{source}: computed {verdict.decision} ({verdict.code}): {verdict.text}"))
    return ExitCode.FINDINGS

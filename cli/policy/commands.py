"""The commands of `dmctl policy`: options in, reports and exit codes out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cli.errors import InputError
from cli.manifests.sources import read_manifests, standard_input
from cli.policy.reports import REPORTS
from cli.policy.verdict import judge
from cli.policy_files import read_policy_file
from policy import RULES, Configuration

Command = TypeVar("Command", bound=Callable[..., Any])


def _configurable(command: Command) -> Command:
    """Give a command the options that say which rules apply."""
    environment = click.option("--environment", metavar="NAME", help="The environment the manifests are meant for.")
    config = click.option("--config", metavar="FILE", help="Levels and parameters of the rules, in YAML.")
    decorated: Command = config(environment(command))
    return decorated


class _ReportTarget(click.ParamType[tuple[str, str | None]]):
    """A report's format, and the file that it goes to instead of the terminal."""

    name = "report"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str | None]:
        """Return format and file."""
        name, separator, file = str(value).partition("=")
        if name not in REPORTS or (separator and not file):
            self.fail(f"{value!r} is none of {', '.join(REPORTS)}, with =FILE or without.", param, ctx)
        return name, file or None


@click.group(help="Judge manifests by the platform's rules.")
def policy() -> None:
    """Group the commands."""


@policy.command(short_help="Judge manifests, without a cluster.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@_configurable
@click.option(
    "-o",
    "--output",
    "outputs",
    type=_ReportTarget(),
    multiple=True,
    default=["text"],
    metavar="FORMAT[=FILE]",
    help=f"{', '.join(REPORTS)}; more than once for several reports (text).",
)
def check(
    files: tuple[str, ...], config: str | None, environment: str | None, outputs: tuple[tuple[str, str | None], ...]
) -> int:
    """Judge the manifests in files, directories or standard input (-), without a cluster.

    DecisionModels are judged together with the objects that would be rendered for them. Ends with 0 when they may be
    applied (also with advisory findings), with 2 when they may not, and with 3 when they cannot be judged.
    """
    stdin = standard_input()
    configuration = read_policy_file(config, environment, stdin)
    read = read_manifests(files, stdin)
    if not read.manifests:
        raise InputError(f"{', '.join(files)}: there are no manifests to judge")
    verdict = judge(read, configuration, _rendered)
    for name, file in outputs:
        _write(REPORTS[name](verdict), file)
    return verdict.exit_code


def _rendered(manifest: Any, configuration: Configuration) -> tuple[Any, ...]:
    """Return the objects rendered for a DecisionModel."""
    # Brings the Pulumi SDK with it, a second that only those wait who have a DecisionModel.
    from cli.policy.offline import rendered_objects  # noqa: PLC0415

    return rendered_objects(manifest, configuration)


def _write(report: str, file: str | None) -> None:
    if file is None:
        click.echo(report, color=False if os.environ.get("NO_COLOR") else None)
        return
    try:
        Path(file).write_text(f"{click.unstyle(report)}\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from error


@policy.command(name="list")
@_configurable
def list_rules(config: str | None, environment: str | None) -> None:
    """List the rules with the levels that apply."""
    configuration = read_policy_file(config, environment, standard_input())
    width = max(len(rule.id) for rule in RULES)
    for rule in RULES:
        click.echo(f"{rule.id:<{width}}  {configuration.level(rule):<9}  {rule.why}")


@policy.command(short_help="Print the rules' configuration for Pulumi's policy pack.")
@_configurable
def pack_config(config: str | None, environment: str | None) -> None:
    """Print the same configuration for `pulumi preview --policy-pack-config`."""
    configuration = read_policy_file(config, environment, standard_input())
    click.echo(json.dumps(configuration.for_pack(), indent=2))

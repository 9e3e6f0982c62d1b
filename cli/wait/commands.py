"""The command `dmctl wait`: options in, progress lines, one answer and an exit code out."""

from __future__ import annotations

import asyncio
import json
from typing import Final

import click

from api.duration import parse_nanoseconds
from api.errors import InvalidDurationError
from cli.connection import ClusterOptions, cluster_options
from cli.errors import InputError
from cli.texts import printable

_LONGEST_SECONDS: Final = 7 * 24 * 3600


def _seconds(_: click.Context, __: click.Parameter, text: str) -> float:
    try:
        seconds = parse_nanoseconds(text) / 1e9
    except InvalidDurationError as error:
        raise click.BadParameter(str(error)) from error
    if not 0 <= seconds <= _LONGEST_SECONDS:
        raise click.BadParameter("give a duration from 0s to 168h")
    return seconds


@click.command(short_help="Wait until a DecisionModel is what its spec asks for.")
@click.argument("name")
@click.option("--timeout", default="1h", show_default=True, callback=_seconds, help="How long; 0s looks once.")
@click.option("-o", "--output", type=click.Choice(("text", "json")), default="text", help="text by default.")
@cluster_options
def wait(  # noqa: PLR0913 - the options of the command line
    name: str, timeout: float, output: str, kubeconfig: str | None, context: str | None, namespace: str | None
) -> int:
    """Wait until the DecisionModel NAME is what its spec asks for, right after it was applied or later.

    What an earlier spec came to counts nothing. A candidate that waits for approval is waited for, and how to approve
    it is told.

    Ends with 0 when the spec's revision serves, with 1 when it did not come to that in time, with 2 when the platform
    has given up (rejected or refused), and with 3 when that cannot be told.
    """
    from cli.wait.waiting import wait_for  # noqa: PLC0415 - brings the Kubernetes client

    if not name:
        raise InputError("name a DecisionModel")
    options = ClusterOptions(kubeconfig=kubeconfig, context=context, namespace=namespace)
    as_json = output == "json"
    ending = asyncio.run(wait_for(name, options, timeout, lambda line: _report(line, quiet=as_json)))
    if as_json:
        click.echo(json.dumps(ending.fields(), indent=2))
    else:
        click.echo(printable(f"{ending.name}: {ending.told}"))
        if ending.next_step:
            click.echo(printable(ending.next_step))
    return ending.code


def _report(line: str, *, quiet: bool) -> None:
    if not quiet:
        click.echo(printable(line), err=True)

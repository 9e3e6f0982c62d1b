"""The command `dmctl preview`: options in, a report and an exit code out."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from typing import Final

import click

from cli.connection import ClusterOptions, cluster_options
from cli.errors import InputError
from cli.manifests.sources import read_manifests, standard_input
from cli.policy_files import read_policy_file

_FORMATS: Final = ("text", "markdown", "json")


@click.command(short_help="Say what would happen if manifests were applied.")
@click.argument("files", nargs=-1, metavar="FILE|DIRECTORY...")
@click.option("--stack", metavar="NAME", help="The environment whose reconciler acts; its own models without files.")
@click.option(
    "--policy-config",
    metavar="FILE",
    help="Levels and parameters of the policy rules, in YAML, instead of the file that the environment names.",
)
@click.option("--offline", is_flag=True, help="Ask neither cluster nor registry: predict from the manifests alone.")
@click.option("-o", "--output", type=click.Choice(_FORMATS), default="text", help="text by default.")
@cluster_options
def preview(  # noqa: PLR0913 - the options of the command line
    files: tuple[str, ...],
    stack: str | None,
    policy_config: str | None,
    offline: bool,
    output: str,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
) -> int:
    """Say what would happen if the manifests were applied now; change nothing.

    Ends with 0 when there is nothing to do, with 1 when something would change, with 2 when something is refused by the
    platform or by mandatory rules, and with 3 when it cannot be told.
    """
    # The rollout's decisions bring the Pulumi SDK with them, a second that no other command waits for.
    from cli.preview.documents import REPORTS  # noqa: PLC0415
    from cli.preview.environments import read_environment  # noqa: PLC0415
    from cli.preview.reading import Question  # noqa: PLC0415
    from cli.preview.reading import preview as previewed  # noqa: PLC0415
    from cli.preview.wording import exit_code  # noqa: PLC0415

    stdin = standard_input()
    environment = None if stack is None else read_environment(stack, policy_config, stdin)
    if not files and environment is None:
        raise InputError("name files or directories with manifests, or an environment with --stack")
    own = () if environment is None or files else environment.files()
    question = Question(
        read=read_manifests(files or own, stdin),
        settings=None if environment is None else environment.settings,
        policy=environment.policy if environment else read_policy_file(policy_config, None, stdin, "--stack"),
        watched=() if environment is None else environment.watched,
        cluster=None if offline else ClusterOptions(kubeconfig=kubeconfig, context=context),
        now=datetime.now(UTC),
        namespace=namespace or ("default" if own else None),
    )
    previews = asyncio.run(previewed(question))
    click.echo(REPORTS[output](previews), color=False if os.environ.get("NO_COLOR") else None)
    return exit_code(previews)

"""The commands of `dmctl state`: options in, reports and exit codes out."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import click

from cli.errors import ExitCode, InputError
from cli.state import access as reach
from cli.state import reports
from cli.state.access import Access
from cli.state.examining import Examined, Surroundings, chosen, examine_all
from cli.state.findings import Code, Finding, described_model, unsound
from cli.state.mending import Planned, carry_out, removal, repairs, restoration
from cli.texts import printable
from components import names
from reconciler.driver.deployment import Deployment, parse_deployment, without
from reconciler.driver.errors import DeploymentInvalidError
from reconciler.driver.states import States
from reconciler.watched_namespaces import parse_namespaces

_FILE = click.Path(dir_okay=False, path_type=Path)
_BACKEND = click.option(
    "--backend", envvar="PULUMI_BACKEND_URL", required=True, metavar="URL", help="file:// or s3://; the reconciler's."
)
_PULUMI = click.option("--pulumi", envvar="PULUMI_COMMAND", type=_FILE, help="The Pulumi CLI; the one on the path.")
_PASSPHRASE = click.option("--passphrase-file", type=_FILE, help="With the states' passphrase; they have none.")
_KUBECONFIG = click.option(
    "--kubeconfig", type=_FILE, help="Instead of $KUBECONFIG, ~/.kube/config, the Pod's account."
)
_CONTEXT = click.option("--context", metavar="NAME", help="The kubeconfig's context, if not its current one.")
_NAMESPACES = click.option(
    "--watch-namespaces", default="", metavar="NAMES", help="As the reconciler's: comma-separated; empty: all of them."
)
_OUTPUT = click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Format (text).")
_OFFLINE = click.option("--offline", is_flag=True, help="Ask no cluster; whose stacks they are stays unknown.")
_DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Only say what would be done; ends with 1 if there is anything."
)
_FORCE = click.option("--force", is_flag=True, help="Without the Lease, although a reconciler may be at work.")
_KEEP = click.option(
    "--keep",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=".",
    help="Where copies of unreadable states go (.).",
)
_STACKS = click.argument("stacks", nargs=-1, metavar="[STACK...]")


def _command(body: Callable[..., Coroutine[Any, Any, int]]) -> Callable[..., int]:
    """Make a command of a coroutine: with the options that say where, and errors that end with the next step."""

    @_BACKEND
    @_PULUMI
    @_PASSPHRASE
    @_KUBECONFIG
    @_CONTEXT
    @_NAMESPACES
    @functools.wraps(body)
    def run(  # noqa: PLR0913 - the options of the command line
        *,
        backend: str,
        pulumi: Path | None,
        passphrase_file: Path | None,
        kubeconfig: Path | None,
        context: str | None,
        watch_namespaces: str,
        **rest: Any,
    ) -> int:
        access = Access(
            backend=backend,
            pulumi=pulumi,
            passphrase_file=passphrase_file,
            kubeconfig=kubeconfig,
            context=context,
            namespaces=parse_namespaces(watch_namespaces),
        )
        with reach.explained():
            return asyncio.run(body(access, **rest))

    return run


@dataclass(frozen=True, slots=True)
class _How:
    """How states are to be changed."""

    output: str
    dry_run: bool
    force: bool

    @property
    def alone(self) -> bool:
        """Whether the Lease has to be held."""
        return not (self.dry_run or self.force)


def _changing(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of all that change states."""

    @_OUTPUT
    @_DRY_RUN
    @_FORCE
    @functools.wraps(command)
    def run(*, output: str, dry_run: bool, force: bool, **rest: Any) -> int:
        return command(how=_How(output, dry_run, force), **rest)

    return run


@click.group(
    help="Look after the engine's states: what the reconciler's backend holds, and whether it is sound.",
    short_help="Look after the states of the engine's stacks.",
)
def state() -> None:
    """Group the commands."""


@state.command(short_help="List the stacks, and whether their DecisionModels exist.")
@_OUTPUT
@_OFFLINE
@_command
async def ls(access: Access, *, output: str, offline: bool) -> int:
    """List the stacks, with the DecisionModel of each and whether it still exists."""
    with reach.open_states(access) as states:
        stacks = [stack for stack in await states.stacks() if names.is_stack_in(stack.name, access.namespaces)]
        # Asked after the backend, so that whoever was created meanwhile is not taken for gone.
        surroundings = await _surroundings(access, offline=offline)
        listed = [
            reports.Listed(
                stack=stack.name,
                decision_model=described_model(stack.name),
                exists=None if surroundings.live is None else stack.name in surroundings.live,
                resources=stack.resources,
                updated=stack.updated,
                locks=len(await states.locks(stack.name)),
            )
            for stack in stacks
        ]
    click.echo(reports.listing_json(listed) if output == "json" else reports.listing_text(listed))
    return ExitCode.CLEAN


@state.command(short_help="Write a stack's state as JSON.")
@click.argument("stack")
@click.option("--file", type=click.File("w", lazy=True), default="-", help="Where to (standard output).")
@_command
async def export(access: Access, *, stack: str, file: TextIO) -> int:
    """Write a stack's state as JSON, as `restore` reads it."""
    with reach.open_states(access) as states:
        await chosen(states, [stack])
        # What was tampered with is shown as it is, and not to the engine.
        read = states.recorded if await states.tampering(stack) else states.export
        text = json.dumps((await read(stack)).document, indent=2)
    click.echo(text, file=file)
    return ExitCode.CLEAN


@state.command(short_help="Look for states that are unsound, or nobody's.")
@_STACKS
@_OUTPUT
@_OFFLINE
@_command
async def check(access: Access, *, stacks: tuple[str, ...], output: str, offline: bool) -> int:
    """Look for states that are unreadable, foreign, interrupted, locked by the dead, or orphaned; all by default.

    Ends with 0 when there is nothing, with 1 when there is, with 3 when that cannot be told.
    """
    with reach.open_states(access) as states:
        named = await _judged(access, states, stacks)
        examined = await examine_all(states, named, await _surroundings(access, offline=offline), _tell)
    findings = [finding for each in examined for finding in each.findings]
    return _report_findings(len(examined), findings, output)


@state.command(short_help="Mend states: dead locks, what is foreign or unreadable.")
@click.argument("stacks", nargs=-1, required=True, metavar="STACK...")
@_KEEP
@_changing
@_command
async def repair(access: Access, *, stacks: tuple[str, ...], keep: Path, how: _How) -> int:
    """Delete locks of dead processes, take out what is foreign or pending, and start unreadable states anew."""
    async with _writing(access, alone=how.alone) as (states, insist):
        await _judged(access, states, stacks)
        # Whoever is alone, or is told to act like it, takes every lock for a dead one.
        surroundings = await _surroundings(access, offline=how.force) if how.dry_run else Surroundings()
        examined = await examine_all(states, stacks, surroundings, _tell)
        planned = [(each, repairs(each)) for each in examined]
        if not how.dry_run:
            await _carry_out(states, planned, insist, keep)
    return _report([change for _, changes in planned for change in changes], how)


@state.command(short_help="Put an exported state in the place of a stack's own.")
@click.argument("stack")
@click.argument("file", type=click.File("rb"))
@_changing
@_command
async def restore(access: Access, *, stack: str, file: BinaryIO, how: _How) -> int:
    """Put an exported state in the place of a stack's own, after a check.

    Ends with 1, and changes nothing, when the file records what is not this stack's.
    """
    deployment = _exported(file)
    # What is pending in it is left out when it is read, so only what is foreign stands in the way.
    if foreign := [each for each in unsound(stack, deployment) if each.code is Code.FOREIGN_RESOURCE]:
        return _report_findings(1, foreign, how.output)
    async with _writing(access, alone=how.alone) as (states, insist):
        if problem := states.tampering_of(stack, without(deployment, set())):
            return _report_findings(1, [Finding(stack=stack, code=Code.TAMPERED, message=problem)], how.output)
        known = {each.name for each in await states.stacks()}
        planned = restoration(stack, file.name, exists=stack in known)
        if not how.dry_run:
            insist()
            if stack not in known:
                await states.create(stack)
            await states.replace(stack, deployment)
    return _report(planned, how)


def _exported(file: BinaryIO) -> Deployment:
    """Read an exported state.

    Raises:
        InputError: It is none.
    """
    try:
        return parse_deployment(file.read())
    except DeploymentInvalidError as error:
        raise InputError(f"{file.name}: {error}", "Name a file that `dmctl state export` wrote.") from error


@state.command(short_help="Drop the stacks of DecisionModels that do not exist.")
@_KEEP
@_changing
@_command
async def sweep(access: Access, *, keep: Path, how: _How) -> int:
    """Drop the stacks of DecisionModels that do not exist, as the reconciler does when it starts."""
    async with _writing(access, alone=how.alone) as (states, insist):
        stacks = await _judged(access, states)
        live = (await _surroundings(access, offline=False)).live or frozenset()
        if stacks and live.isdisjoint(stacks) and not how.force:
            raise InputError(
                f"None of the {len(stacks)} stacks belongs to a DecisionModel of this cluster.",
                "Make sure that --backend and --kubeconfig belong together; --force sweeps all the same.",
            )
        orphans = [stack for stack in stacks if stack not in live]
        planned = [(each, removal(each)) for each in await examine_all(states, orphans, Surroundings(), _tell)]
        if not how.dry_run:
            await _carry_out(states, planned, insist, keep)
    return _report([change for _, changes in planned for change in changes], how)


@asynccontextmanager
async def _writing(access: Access, *, alone: bool) -> AsyncIterator[tuple[States, Callable[[], None]]]:
    """Open the backend, alone if so wanted; yields it with what to call before every write."""
    with reach.open_states(access) as states:
        if not alone:
            yield states, lambda: None
            return
        async with reach.open_cluster(access) as client, reach.sole_writer(client, access.lease, _tell) as insist:
            yield states, insist


async def _judged(access: Access, states: States, asked: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the stacks that were asked for, all of the watched namespaces when none was.

    Raises:
        InputError: There is no such stack, or it is of a namespace that is not watched.
    """
    stacks = await chosen(states, asked)
    others = [stack for stack in stacks if not names.is_stack_in(stack, access.namespaces)]
    if asked and others:
        raise InputError(f"{others[0]} is of a namespace that --watch-namespaces leaves out. Add it there.")
    return tuple(stack for stack in stacks if stack not in others)


async def _surroundings(access: Access, *, offline: bool) -> Surroundings:
    if offline:
        return Surroundings()
    async with reach.open_cluster(access) as client:
        live = await reach.live_stacks(client, access.namespaces)
        return Surroundings(live=live, leader=await reach.leader_host(client))


async def _carry_out(
    states: States, planned: Sequence[tuple[Examined, Sequence[Planned]]], insist: Callable[[], None], keep: Path
) -> None:
    for examined, changes in planned:
        for change in changes:
            insist()
            _tell(f"{change.stack}: {change.message}")
            await carry_out(states, change, examined, keep)


def _report(changes: Sequence[Planned], how: _How) -> int:
    report = reports.changes_json if how.output == "json" else reports.changes_text
    click.echo(report(changes, dry_run=how.dry_run))
    return ExitCode.FINDINGS if how.dry_run and changes else ExitCode.CLEAN


def _report_findings(checked: int, findings: Sequence[Finding], output: str) -> int:
    report = reports.findings_json if output == "json" else reports.findings_text
    click.echo(report(checked, findings))
    return ExitCode.FINDINGS if findings else ExitCode.CLEAN


def _tell(progress: str) -> None:
    """Say what takes time, where it does not mix with the result."""
    click.echo(printable(progress), err=True)

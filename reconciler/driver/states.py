"""The states of a backend outside any operation: listed, exported, replaced, unlocked, dropped. For people's tools.

Everything that writes has the precondition of the whole driver: the caller holds the Lease (see `recovery`).
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from reconciler.driver import backend_layout as layout
from reconciler.driver import command, housekeeping, state_reading
from reconciler.driver.backend_files import open_files
from reconciler.driver.bucket_credentials import current_environment
from reconciler.driver.classification import classify
from reconciler.driver.cli_process import CliRun, Limits, Stop, run_cli, run_or_stop
from reconciler.driver.deployment import Deployment, parse_deployment
from reconciler.driver.errors import BackendFilesError, StateCommandError
from reconciler.driver.events import EngineReport
from reconciler.driver.operation import FailureReason
from reconciler.driver.recovery import LockOwner
from reconciler.driver.settings import DriverSettings

_COMMAND_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSummary:
    """One stack of the list.

    Attributes:
        name: Its name.
        updated: When an operation last ended, RFC 3339; None when unknown.
        resources: How many are recorded; None when unknown.
    """

    name: str
    updated: str | None = None
    resources: int | None = None


class _ListedStack(msgspec.Struct, rename="camel"):
    name: str
    last_update: str | None = None
    resource_count: int | None = None


class _LockFile(msgspec.Struct):
    pid: int
    hostname: str
    timestamp: datetime


class States:
    """The states of one backend and project.

    Args:
        settings: The driver's; workers are not used.
    """

    def __init__(self, settings: DriverSettings) -> None:
        self._settings = settings
        self._files = open_files(settings.backend_url)
        housekeeping.prepare_directories(settings)

    async def stacks(self) -> tuple[StackSummary, ...]:
        """Every stack, by name. A single unreadable state keeps the CLI from listing any; then only names are known.

        Raises:
            StateCommandError: The backend cannot be asked.
            BackendFilesError: The same, found out without the CLI.
            BackendLayoutError: The CLI would look for them elsewhere.
        """
        if self._settings.state_rules is not None:
            await asyncio.to_thread(state_reading.insist_on_layout, self._files)
        directory = layout.stacks_directory(self._settings.project)
        names = layout.stack_names(await asyncio.to_thread(self._files.names, directory))
        details = await self._details()
        return tuple(details.get(name, StackSummary(name=name)) for name in names)

    async def _details(self) -> Mapping[str, StackSummary]:
        try:
            listed = msgspec.json.decode(await self._run(command.list_stacks_arguments()), type=list[_ListedStack])
        except msgspec.DecodeError:
            # More stacks than fit into the part of the output that is kept.
            return {}
        except StateCommandError as error:
            if error.failure.reason is not FailureReason.STATE_CORRUPT:
                raise
            return {}
        return {
            stack.name: StackSummary(name=stack.name, updated=stack.last_update, resources=stack.resource_count)
            for stack in listed
        }

    async def export(self, stack: str) -> Deployment:
        """Read a state.

        Raises:
            StateCommandError: The CLI cannot read it.
            DeploymentInvalidError: What it has read contradicts itself.
        """
        with self._scratch() as directory:
            file = directory / "state.json"
            await self._run(command.export_arguments(stack, file))
            return parse_deployment(file.read_bytes())

    async def tampering(self, stack: str) -> str | None:
        """What a state records that no operation of the reconciler's writes; None when there is nothing, or no rules.

        Raises:
            BackendFilesError: It cannot be read.
            BackendLayoutError: The CLI would take another file for the state.
            CheckpointInvalidError: It is not one that the CLI would write.
        """
        project, rules = self._settings.project, self._settings.state_rules
        if rules is None:
            return None
        return await asyncio.to_thread(state_reading.found_tampering, self._files, project, stack, rules)

    def tampering_of(self, stack: str, deployment: Deployment) -> str | None:
        """The same of a state that was exported, or is to be written."""
        rules = self._settings.state_rules
        if rules is None:
            return None
        return state_reading.exported_tampering(deployment, self._settings.project, stack, rules)

    async def recorded(self, stack: str) -> Deployment:
        """Read a state that must not be shown to the CLI.

        Raises:
            BackendFilesError: It cannot be read.
            CheckpointInvalidError: It is not one that the CLI would write.
            DeploymentInvalidError: What was read contradicts itself.
        """
        found = await asyncio.to_thread(list, state_reading.checkpoints(self._files, self._settings.project, stack))
        checkpoint = found[-1].get("checkpoint") if found else None
        latest = checkpoint.get("latest") if isinstance(checkpoint, dict) else None
        return parse_deployment(json.dumps({"version": 3, "deployment": latest or {}}).encode())

    async def start_anew(self, stack: str) -> None:
        """Put an empty state in the place of one that must not, or cannot, be shown to the CLI; touches no cluster.

        Raises:
            BackendFilesError: The old one stays.
            StateCommandError: The CLI refuses.
        """
        await asyncio.to_thread(housekeeping.discard_state, self._files, self._settings.project, stack)
        await self.create(stack)

    async def exists(self, stack: str) -> bool:
        """Whether a stack is there, be its state unreadable.

        Raises:
            BackendFilesError: That cannot be told.
        """
        directory = layout.stacks_directory(self._settings.project)
        return stack in layout.stack_names(await asyncio.to_thread(self._files.names, directory))

    async def raw(self, stack: str) -> Mapping[str, bytes]:
        """The files of a state as they are, by name; for a copy of what the CLI cannot read.

        Raises:
            BackendFilesError: They cannot be read.
        """
        return await asyncio.to_thread(self._read_raw, stack)

    def _read_raw(self, stack: str) -> Mapping[str, bytes]:
        directory = layout.stacks_directory(self._settings.project)
        present = set(self._files.names(directory))
        names = (*layout.checkpoint_names(stack), layout.foreign_checkpoint_name(stack))
        return {name: self._files.read(f"{directory}/{name}") for name in names if name in present}

    async def replace(self, stack: str, deployment: Deployment) -> None:
        """Write a state over whatever is there, be it unreadable. Drops what is pending; touches no cluster.

        Raises:
            StateCommandError: The CLI refuses it, or the stack is locked.
        """
        with self._scratch() as directory:
            file = directory / "state.json"
            file.write_text(json.dumps(deployment.document), encoding="utf-8")
            await self._run(command.import_arguments(stack, file))

    async def create(self, stack: str) -> None:
        """Make an empty stack.

        Raises:
            StateCommandError: The CLI refuses, or the stack exists.
        """
        await self._run(command.create_stack_arguments(stack))

    async def unlock(self, stack: str) -> None:
        """Delete all locks of a stack; stops nobody.

        Raises:
            StateCommandError: The CLI refuses.
        """
        await self._run(command.cancel_arguments(stack))

    async def drop(self, stack: str) -> None:
        """Forget a stack, its state and its history, without touching the cluster.

        Raises:
            StateCommandError: The CLI refuses, or the stack is locked.
            BackendFilesError: Its history stays.
        """
        await self._run(command.remove_stack_arguments(stack))
        await asyncio.to_thread(housekeeping.remove_remains, self._files, self._settings.project, stack)

    async def locks(self, stack: str) -> tuple[LockOwner | None, ...]:
        """Who holds locks of a stack; None for a lock that does not say. Those released meanwhile are left out.

        Raises:
            BackendFilesError: They cannot be read.
        """
        return await asyncio.to_thread(self._read_locks, stack)

    def _read_locks(self, stack: str) -> tuple[LockOwner | None, ...]:
        directory = layout.locks_directory(self._settings.project, stack)
        names = [name for name in self._files.names(directory) if name.endswith(".json")]
        held = [self._read_lock(directory, name) for name in names]
        return tuple(_lock_owner(data) for data in held if data is not None)

    def _read_lock(self, directory: str, name: str) -> bytes | None:
        try:
            return self._files.read(f"{directory}/{name}")
        except BackendFilesError:
            if name in self._files.names(directory):
                raise
            return None

    async def _run(self, arguments: list[str]) -> str:
        run = await self._run_cli(arguments)
        if failure := classify(run, EngineReport()):
            raise StateCommandError(failure)
        return run.stdout

    async def _run_cli(self, arguments: list[str]) -> CliRun:
        """Run it to its end; whoever is cancelled meanwhile waits until the state is saved."""
        stop = Stop()
        limits = Limits(
            deadline=time.monotonic() + _COMMAND_SECONDS,
            grace_seconds=self._settings.grace_seconds,
            stop=stop,
            clock=time.monotonic,
        )
        running = asyncio.create_task(
            run_cli(
                command.command_line(self._settings, arguments),
                environment=command.cli_environment(
                    self._settings, current_environment(os.environ), self._settings.temporary_directory
                ),
                directory=self._settings.project_directory,
                limits=limits,
            )
        )
        try:
            return await run_or_stop(running, stop)
        finally:
            await asyncio.wait([running])

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        directory = housekeeping.make_temporary_directory(self._settings)
        try:
            yield directory
        finally:
            housekeeping.remove_directory(directory)


def _lock_owner(data: bytes) -> LockOwner | None:
    try:
        lock = msgspec.json.decode(data, type=_LockFile)
    except msgspec.DecodeError:
        return None
    return LockOwner(host=lock.hostname, pid=lock.pid, locked_at=lock.timestamp)

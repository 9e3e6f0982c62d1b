"""One operation from its first CLI process to its outcome, with the bounded recovery in between."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.driver import command, housekeeping, lock_owners, state_reading
from reconciler.driver.backend_files import BackendFiles
from reconciler.driver.bucket_credentials import current_environment
from reconciler.driver.classification import EXIT_STACK_NOT_FOUND, classify, has_pending_operations
from reconciler.driver.cli_process import CliRun, Ending, Limits, run_cli
from reconciler.driver.errors import BackendFilesError, WorkerLostError
from reconciler.driver.events import EngineReport, Step
from reconciler.driver.messages import Rejected
from reconciler.driver.operation import (
    PROGRAM_KINDS,
    Failure,
    FailureReason,
    Operation,
    OperationKind,
    Outcome,
    ResourceChange,
)
from reconciler.driver.recovery import RecoveryStep, Symptoms, next_step, parse_lock_owners
from reconciler.driver.settings import DriverSettings
from reconciler.driver.worker_process import WorkerProcess

_LOG = logging.getLogger(__name__)
_NO_REPORT = EngineReport()


@dataclass(frozen=True, slots=True)
class Order:
    """An operation with its program pickled (None when it has none)."""

    operation: Operation
    program: bytes | None


@dataclass(frozen=True, slots=True)
class _Try:
    """What one CLI process came to."""

    failure: Failure | None
    report: EngineReport = _NO_REPORT
    symptoms: Symptoms = field(default_factory=lambda: Symptoms(reason=None))


_STACK_MISSING = _Try(
    Failure(reason=FailureReason.UNKNOWN, message="the backend has no such stack"),
    symptoms=Symptoms(reason=FailureReason.UNKNOWN, stack_missing=True),
)


class Execution:
    """Carries one operation out with one worker.

    Args:
        settings: The driver's.
        files: The backend's.
        worker: Lent for the whole operation.
        order: What to do.
        limits: By when, and how to be stopped earlier.
    """

    def __init__(
        self, settings: DriverSettings, files: BackendFiles, worker: WorkerProcess, order: Order, limits: Limits
    ) -> None:
        self._settings = settings
        self._files = files
        self._worker = worker
        self._operation = order.operation
        self._program = order.program
        self._limits = limits
        self._started = limits.clock()
        self._temporary = Path()

    async def run(self) -> Outcome:
        """Carry it out. Not to be cancelled; ask `stop` instead.

        Raises:
            OSError: The machine lets no process or temporary directory be made.
        """
        self._temporary = housekeeping.make_temporary_directory(self._settings)
        try:
            result = await self._with_recovery()
            await self._tidy_up(result)
        finally:
            housekeeping.remove_directory(self._temporary)
        return self._outcome(result)

    async def _with_recovery(self) -> _Try:
        taken: set[RecoveryStep] = set()
        result = _STACK_MISSING if self._needs_stack_first() else await self._try_operation()
        while step := next_step(self._operation.kind, result.symptoms, taken, lock_owners.lives):
            taken.add(step)
            level = logging.INFO if step is RecoveryStep.CREATE_STACK else logging.WARNING
            _LOG.log(level, "stack %s: %s", self._operation.stack, step, extra={"reason": result.symptoms.reason})
            helped = await self._take(step)
            if helped.failure is not None:
                return _Try(helped.failure, result.report)
            if result.failure is None:
                return result
            result = await self._try_operation()
        return result

    def _needs_stack_first(self) -> bool:
        """Whether the first try can be spared: it takes as long as any to find out that the stack is missing."""
        return self._operation.kind in PROGRAM_KINDS and housekeeping.is_known_missing(
            self._settings, self._operation.stack
        )

    async def _try_operation(self) -> _Try:
        kind, stack = self._operation.kind, self._operation.stack
        if refusal := await self._refusal():
            return refusal
        if kind is OperationKind.REMOVE:
            result = await self._run_plain(command.remove_stack_arguments(stack))
        else:
            result = await self._run_engine(lambda address: command.operation_arguments(kind, stack, address))
        nothing_left = kind in {OperationKind.DESTROY, OperationKind.REMOVE} and result.symptoms.stack_missing
        return _Try(failure=None) if nothing_left else result

    async def _take(self, step: RecoveryStep) -> _Try:
        stack = self._operation.stack
        match step:
            case RecoveryStep.CREATE_STACK:
                return await self._run_plain(command.create_stack_arguments(stack))
            case RecoveryStep.CANCEL_LOCKS:
                return await self._run_plain(command.cancel_arguments(stack))
            case RecoveryStep.CLEAR_PENDING_CREATES:
                return await self._clear_pending_creates()
            case RecoveryStep.DISCARD_STATE:
                return await self._discard_state()

    async def _discard_state(self) -> _Try:
        project, stack = self._settings.project, self._operation.stack
        try:
            await asyncio.to_thread(housekeeping.discard_state, self._files, project, stack)
        except BackendFilesError as error:
            return _Try(Failure(reason=FailureReason.BACKEND_UNREACHABLE, message=str(error)))
        return _Try(failure=None)

    async def _clear_pending_creates(self) -> _Try:
        stack = self._operation.stack
        if refusal := await self._refusal():
            return refusal
        result = await self._run_engine(lambda address: command.clear_pending_creates_arguments(stack, address))
        if result.failure is None or result.failure.reason is not FailureReason.UNKNOWN:
            return result
        return _Try(Failure(reason=FailureReason.PENDING_OPERATIONS, message=result.failure.message))

    async def _refusal(self) -> _Try | None:
        """Look at the state that the CLI is about to read; return why it must not, None when it may.

        Whoever can write states can still replace one in between, which takes the CLI about half a second: what is
        excluded is that a state lies in wait.
        """
        try:
            failure = await asyncio.to_thread(state_reading.refusal, self._files, self._settings, self._operation.stack)
        except BackendFilesError as error:
            failure = Failure(reason=FailureReason.BACKEND_UNREACHABLE, message=str(error))
        return None if failure is None else _Try(failure, symptoms=Symptoms(reason=failure.reason))

    async def _run_engine(self, arguments: Callable[[str], list[str]]) -> _Try:
        try:
            address = await self._worker.serve(self._program)
        except WorkerLostError as error:
            return _Try(Failure(reason=FailureReason.INTERRUPTED, message=str(error)))
        if isinstance(address, Rejected):
            return _Try(Failure(reason=FailureReason.PROGRAM_ERROR, message=address.message))
        try:
            run = await self._run(arguments(address))
        except OSError:
            await self._worker.kill()
            raise
        if run.ending is not Ending.EXITED:
            # Its program may hang; a fresh worker is cheaper than finding out.
            await self._worker.kill()
            return _judge(run, _NO_REPORT)
        try:
            report = await self._worker.finish()
        except WorkerLostError as error:
            return _without_report(run, error)
        if run.was_killed:
            # The program it was running may still talk to the engine that is gone, and would fail the next operation.
            await self._worker.kill()
        return _judge(run, report)

    async def _run_plain(self, arguments: list[str]) -> _Try:
        return _judge(await self._run(arguments), _NO_REPORT)

    async def _run(self, arguments: list[str]) -> CliRun:
        return await run_cli(
            command.command_line(self._settings, arguments),
            environment=command.cli_environment(self._settings, current_environment(os.environ), self._temporary),
            directory=self._settings.project_directory,
            limits=self._limits,
        )

    async def _tidy_up(self, result: _Try) -> None:
        kind, stack = self._operation.kind, self._operation.stack
        # Who stops it may not be the only writer for much longer.
        if kind is OperationKind.PREVIEW or self._limits.stop.asked.is_set():
            return
        # A backend that has just not answered would only be waited for once more.
        if result.symptoms.reason is FailureReason.BACKEND_UNREACHABLE:
            return
        try:
            await asyncio.to_thread(self._remove_superseded)
        except BackendFilesError as error:
            _LOG.warning("stack %s: files that nobody needs stay in the backend: %s", stack, error)

    def _remove_superseded(self) -> None:
        project, stack = self._settings.project, self._operation.stack
        if self._operation.kind is OperationKind.REMOVE:
            housekeeping.remove_remains(self._files, project, stack)
        else:
            housekeeping.prune_history(self._files, project, stack, self._settings.history_entries)

    def _outcome(self, result: _Try) -> Outcome:
        return Outcome(
            stack=self._operation.stack,
            kind=self._operation.kind,
            failure=result.failure,
            changes=result.report.changes,
            resources=tuple(_change(step) for step in result.report.steps),
            seconds=self._limits.clock() - self._started,
        )


def _judge(run: CliRun, report: EngineReport) -> _Try:
    failure = classify(run, report)
    symptoms = Symptoms(
        reason=failure.reason if failure else None,
        stack_missing=run.exit_code == EXIT_STACK_NOT_FOUND,
        pending_operations=has_pending_operations(report),
        lock_owners=parse_lock_owners(run.stderr),
    )
    return _Try(failure, report, symptoms)


def _without_report(run: CliRun, error: WorkerLostError) -> _Try:
    judged = _judge(run, _NO_REPORT)
    if judged.failure is not None and judged.failure.reason is not FailureReason.UNKNOWN:
        return judged
    # Even after exit code 0: without events nobody knows what was done.
    return _Try(Failure(reason=FailureReason.INTERRUPTED, message=str(error)))


def _change(step: Step) -> ResourceChange:
    return ResourceChange(
        urn=step.urn, type=step.type, name=step.urn.rpartition("::")[2], op=step.op, changed_paths=step.paths
    )

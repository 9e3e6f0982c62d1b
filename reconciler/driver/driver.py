"""The driver as the controller sees it: a queue of operations in front of a pool of workers."""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
from collections.abc import Callable
from weakref import WeakValueDictionary

from reconciler.driver import backend_layout as layout
from reconciler.driver import housekeeping
from reconciler.driver.backend_files import open_files
from reconciler.driver.cli_process import Limits, Stop, run_or_stop
from reconciler.driver.errors import (
    BackendFilesError,
    BackendQueryError,
    DriverClosedError,
    UnpicklableProgramError,
    WorkerLostError,
)
from reconciler.driver.execution import Execution, Order
from reconciler.driver.operation import Failure, FailureReason, Operation, Outcome
from reconciler.driver.settings import DriverSettings
from reconciler.driver.versions import check_tools
from reconciler.driver.worker_pool import WorkerPool

_LOG = logging.getLogger(__name__)


class StackDriver:
    """Runs operations, each as one CLI process: shared fairly by namespaces, never two on one stack at once.

    Precondition: from its first operation until it is closed, the caller holds the Lease that makes it the only writer
    of this backend and project. On the strength of that, locks left by other hosts are deleted (see `recovery`), and
    half-written files before the first operation.

    Args:
        settings: Paths, sizes and limits.
        clock: Monotonic seconds, for deadlines and durations.
    """

    def __init__(self, settings: DriverSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._files = open_files(settings.backend_url)
        self._clock = clock
        self._pool = WorkerPool(
            size=settings.workers, preload=settings.preload, operations_per_worker=settings.operations_per_worker
        )
        self.turns = self._pool.turns
        """Who waits for a worker, and who has one."""
        # An entry lives as long as an operation waits for it or holds it.
        self._stack_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._running: dict[asyncio.Task[Outcome], Stop] = {}
        self._open = False
        self._tidying = asyncio.Lock()
        self._tidied = False

    async def start(self) -> None:
        """Check the tools and warm the workers up. The backend is left alone: another may still write to it.

        Raises:
            IncompatibleToolError: SDK, CLI or a plugin is missing or of the wrong version.
            WorkerLostError: A worker process does not come up.
        """
        housekeeping.prepare_directories(self._settings)
        await check_tools(self._settings)
        await self._pool.start()
        self._open = True

    async def close(self, grace_seconds: float, save_seconds: float | None = None) -> None:
        """Refuse new operations, let running ones end for `grace_seconds`, stop the rest, end the workers.

        What is stopped gets `save_seconds`, or the settings' grace if that is shorter or nothing is said, to save its
        state; then it is killed. Takes at most the two periods and a few seconds. Closing again does no harm, and may
        hurry what an unfinished call waits for.
        """
        self._open = False
        await self._ended_within(grace_seconds)
        for stop in self._running.values():
            stop.asked.set()
        await self._ended_within(save_seconds)
        for stop in self._running.values():
            stop.grace_over.set()
        await self._ended_within(None)
        await self._pool.close()

    async def _ended_within(self, seconds: float | None) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    async def run(self, operation: Operation) -> Outcome:
        """Carry an operation out and say how it ended.

        Cancelling the call stops the operation in the background (the CLI saves its state); a next operation on the
        same stack waits for that.

        Raises:
            DriverClosedError: Not started, or closed.
            UnpicklableProgramError: The program cannot be sent to a worker.
        """
        if not self._open:
            raise DriverClosedError("the driver is not started, or closed")
        order = Order(operation, _pickled(operation))
        stop = Stop()
        task = asyncio.create_task(self._execute(order, stop), name=f"pulumi {operation.stack}")
        self._running[task] = stop
        task.add_done_callback(self._running.pop)
        return await run_or_stop(task, stop)

    async def stacks(self) -> tuple[str, ...]:
        """Names of the project's stacks in the backend, sorted.

        Read from the backend's files: a single unreadable state keeps the CLI from listing any stack.

        Raises:
            BackendQueryError: They could not be read.
        """
        directory = layout.stacks_directory(self._settings.project)
        try:
            return layout.stack_names(await asyncio.to_thread(self._files.names, directory))
        except BackendFilesError as error:
            failure = Failure(reason=FailureReason.BACKEND_UNREACHABLE, message=str(error))
            raise BackendQueryError(failure) from error

    async def _execute(self, order: Order, stop: Stop) -> Outcome:
        await self._remove_half_written()
        lock = self._stack_locks.setdefault(order.operation.stack, asyncio.Lock())
        async with lock:
            try:
                async with self._pool.lend(order.operation.tenant, urgent=order.operation.urgent) as worker:
                    if stop.asked.is_set():
                        message = "the operation was stopped before its start"
                        return _not_run(order.operation, FailureReason.INTERRUPTED, message)
                    limits = self._limits(order.operation.deadline_seconds, stop)
                    return await Execution(self._settings, self._files, worker, order, limits).run()
            except WorkerLostError as error:
                return _not_run(order.operation, FailureReason.INTERRUPTED, str(error))
            except OSError as error:
                message = f"the machine refused what the operation needs: {error}; look at its disk, memory and limits"
                return _not_run(order.operation, FailureReason.UNKNOWN, message)

    async def _remove_half_written(self) -> None:
        """Do so once, and let every operation wait for it."""
        async with self._tidying:
            if self._tidied:
                return
            self._tidied = True
            try:
                await asyncio.to_thread(housekeeping.remove_half_written, self._settings)
            except BackendFilesError as error:
                _LOG.warning("files that a killed CLI left may stay in the backend: %s", error)

    def _limits(self, seconds: float, stop: Stop) -> Limits:
        return Limits(
            deadline=self._clock() + seconds,
            grace_seconds=self._settings.grace_seconds,
            stop=stop,
            clock=self._clock,
        )


def _pickled(operation: Operation) -> bytes | None:
    if operation.program is None:
        return None
    try:
        return pickle.dumps(operation.program)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UnpicklableProgramError(f"the program of {operation.stack} cannot be pickled: {error}") from error


def _not_run(operation: Operation, reason: FailureReason, message: str) -> Outcome:
    failure = Failure(reason=reason, message=message)
    return Outcome(stack=operation.stack, kind=operation.kind, failure=failure, seconds=0.0)

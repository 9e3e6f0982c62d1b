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
from reconciler.driver.cli_process import Limits
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
    """Runs operations, each as one CLI process: first come first served, never two on one stack at once.

    Precondition: while it is started, the caller holds the Lease that makes it the only writer of this backend and
    project. Locks left by other hosts are deleted on the strength of that (see `recovery`).

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
        # An entry lives as long as an operation waits for it or holds it.
        self._stack_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._running: dict[asyncio.Task[Outcome], asyncio.Event] = {}
        self._open = False

    async def start(self) -> None:
        """Check the tools and warm the workers up.

        Raises:
            IncompatibleToolError: SDK, CLI or a plugin is missing or of the wrong version.
            WorkerLostError: A worker process does not come up.
        """
        housekeeping.prepare_directories(self._settings)
        await self._remove_half_written()
        await check_tools(self._settings)
        await self._pool.start()
        self._open = True

    async def _remove_half_written(self) -> None:
        try:
            await asyncio.to_thread(housekeeping.remove_half_written, self._settings)
        except BackendFilesError as error:
            _LOG.warning("files that a killed CLI left may stay in the backend: %s", error)

    async def close(self, grace_seconds: float) -> None:
        """Refuse new operations, let running ones end for `grace_seconds`, stop the rest, end the workers.

        Takes at most the two grace periods (this one and the settings') and a few seconds.
        """
        self._open = False
        if self._running:
            await asyncio.wait(self._running, timeout=grace_seconds)
        for stop in self._running.values():
            stop.set()
        if self._running:
            await asyncio.wait(self._running)
        await self._pool.close()

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
        stop = asyncio.Event()
        task = asyncio.create_task(self._execute(order, stop), name=f"pulumi {operation.stack}")
        self._running[task] = stop
        task.add_done_callback(self._running.pop)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            stop.set()
            raise

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

    async def _execute(self, order: Order, stop: asyncio.Event) -> Outcome:
        lock = self._stack_locks.setdefault(order.operation.stack, asyncio.Lock())
        async with lock:
            try:
                async with self._pool.lend() as worker:
                    if stop.is_set():
                        return _not_run(order.operation, "the operation was stopped before its start")
                    limits = self._limits(order.operation.deadline_seconds, stop)
                    return await Execution(self._settings, self._files, worker, order, limits).run()
            except WorkerLostError as error:
                return _not_run(order.operation, str(error))

    def _limits(self, seconds: float, stop: asyncio.Event) -> Limits:
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


def _not_run(operation: Operation, message: str) -> Outcome:
    failure = Failure(reason=FailureReason.INTERRUPTED, message=message)
    return Outcome(stack=operation.stack, kind=operation.kind, failure=failure, seconds=0.0)

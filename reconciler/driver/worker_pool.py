"""A fixed number of warm worker processes, shared fairly by namespaces, with those in a hurry before others.

A worker that was broken, killed or has served its share is replaced while its slot is idle, so the next operation
finds a warm one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from reconciler.driver.worker_process import WorkerProcess
from reconciler.turns import FairSlots


class _Slot:
    """One place in the pool; `worker` is the running or finished start of its process."""

    def __init__(self, worker: asyncio.Task[WorkerProcess]) -> None:
        self.worker = worker


class WorkerPool:
    """Lends workers.

    Args:
        size: Number of worker processes.
        preload: Modules each imports at its start.
        operations_per_worker: After how many a worker is replaced.
    """

    def __init__(self, *, size: int, preload: Sequence[str], operations_per_worker: int) -> None:
        self._size = size
        self._preload = tuple(preload)
        self._operations_per_worker = operations_per_worker
        self._slots: list[_Slot] = []
        self._idle: deque[_Slot] = deque()
        # Operations have a deadline, so none has to be kept free.
        self.turns = FairSlots(size)

    async def start(self) -> None:
        """Spawn all workers and wait until they are warm.

        Raises:
            WorkerLostError: One did not come up.
        """
        self._slots = [_Slot(self._spawn()) for _ in range(self._size)]
        await asyncio.gather(*(slot.worker for slot in self._slots))
        self._idle.extend(self._slots)

    @asynccontextmanager
    async def lend(self, tenant: str = "", *, urgent: bool = False) -> AsyncIterator[WorkerProcess]:
        """Wait for a free slot and hold its worker.

        Args:
            tenant: For whom: a namespace.
            urgent: Whether to go before those that wait and are not, within bounds (`FairQueue`).

        Raises:
            WorkerLostError: The slot's worker could not be started; the next borrower tries again.
        """
        async with self.turns.hold(tenant, urgent=urgent):
            slot = self._idle.popleft()
            try:
                yield await self._live(slot)
            finally:
                # Cancelled in between, it is idle all the same: who borrows it next looks whether its worker lives.
                try:
                    await self._settle(slot)
                finally:
                    self._idle.append(slot)

    async def close(self) -> None:
        """Kill all workers. Nothing may be on loan."""
        for slot in self._slots:
            slot.worker.cancel()
        started = await asyncio.gather(*(slot.worker for slot in self._slots), return_exceptions=True)
        for worker in started:
            if isinstance(worker, WorkerProcess):
                await worker.kill()
        self._slots = []

    async def _live(self, slot: _Slot) -> WorkerProcess:
        worker = await asyncio.shield(slot.worker)
        if worker.usable:
            return worker
        # Died while idle.
        await worker.kill()
        slot.worker = self._spawn()
        return await asyncio.shield(slot.worker)

    async def _settle(self, slot: _Slot) -> None:
        if not slot.worker.done():
            return
        failed = slot.worker.cancelled() or slot.worker.exception() is not None
        if not failed and self._fit(slot.worker.result()):
            return
        if not failed:
            await slot.worker.result().kill()
        slot.worker = self._spawn()

    def _fit(self, worker: WorkerProcess) -> bool:
        return worker.usable and worker.served < self._operations_per_worker

    def _spawn(self) -> asyncio.Task[WorkerProcess]:
        return asyncio.create_task(WorkerProcess.spawn(self._preload), name="pulumi worker start")

"""The life of a controller process: start, lead, work, and end in an order that loses nothing.

A crash of any part (a reflector, the elector, a server) ends the process: half a controller is worse than none, and
what runs it starts another. A signal ends it in the order of section 6 of the controller study.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from reconciler.kernel.background import BackgroundTasks
from reconciler.kernel.events import EventRecorder
from reconciler.kernel.health import HttpServer
from reconciler.kernel.lease import Election
from reconciler.kernel.reflector import Reflector
from reconciler.kernel.timing import REAL_TIME, Timing
from reconciler.kernel.workers import Workers

_log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# A connected watch hears a bookmark every minute; silence beyond this means our own loop or socket is broken.
_SILENCE_SECONDS = 180.0
_WORKERS_GRACE = 10.0
_FLUSH_SECONDS = 2.0


async def _nothing() -> None:
    """The default of the last writes: none."""


@dataclass(kw_only=True)
class Runner:
    """One controller process.

    Attributes:
        workers: The reconciling part.
        reflectors: All that must be in sync before work starts.
        background: Slow work.
        drained_kinds: Kinds of background work that may finish after a signal; all others are cancelled.
        drain_seconds: How long they may take.
        events: The Event recorder.
        servers: Health and metrics endpoints.
        elector: Leader election; None works without.
        last_writes: Runs after the drain and while the Lease is still held.
        timing: Time and chance.
    """

    workers: Workers
    reflectors: Sequence[Reflector]
    background: BackgroundTasks
    events: EventRecorder
    servers: Sequence[HttpServer] = ()
    elector: Election | None = None
    drained_kinds: frozenset[str] = frozenset()
    drain_seconds: float = 30.0
    last_writes: Callable[[], Awaitable[None]] = _nothing
    timing: Timing = REAL_TIME
    _stop: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def stop(self) -> None:
        """End the process in order, as a signal does."""
        self._stop.set()

    def readiness_problems(self) -> Iterator[str]:
        """Why `/readyz` is false: a stop was asked for, or a reflector has not synced."""
        if self._stop.is_set():
            yield "stopping"
        for reflector in self.reflectors:
            if not reflector.status.synced:
                yield f"{reflector.name} not synced"

    def liveness_problems(self) -> Iterator[str]:
        """Why `/healthz` is false: a watch is connected but silent.

        A server that is down is no reason: starting us again would not help.
        """
        now = self.timing.clock()
        for reflector in self.reflectors:
            silence = now - reflector.status.last_contact
            if reflector.status.connected and silence > _SILENCE_SECONDS:
                yield f"{reflector.name} silent for {silence:.0f} s"

    async def run(self) -> None:
        """Run until a signal or `stop`; returns after a clean end.

        Raises:
            ExceptionGroup: A part crashed, or leadership was lost (`LeadershipLost`).
        """
        with self._signals():
            try:
                async with asyncio.TaskGroup() as group:
                    await self._live(group)
            finally:
                await self.background.stop()

    async def _live(self, group: asyncio.TaskGroup) -> None:
        services: list[asyncio.Task[Any]] = [group.create_task(server.run()) for server in self.servers]
        services += [group.create_task(reflector.run()) for reflector in self.reflectors]
        services.append(group.create_task(self.events.run()))
        election = group.create_task(self.elector.run()) if self.elector else None
        await self._work_until_stopped(group)
        if self.elector and election:
            await _cancel(election)
            await self.elector.release()
        await self.events.flush(_FLUSH_SECONDS)
        await _cancel(*services)

    async def _work_until_stopped(self, group: asyncio.TaskGroup) -> None:
        _log.info("waiting for the watch caches%s", " and the lease" if self.elector else "")
        if not await self._unless_stopped(self._prerequisites()):
            return
        _log.info("working")
        working = group.create_task(self.workers.run())
        await self._stop.wait()
        _log.info("stopping")
        self.workers.queue.close()
        await asyncio.wait([working], timeout=_WORKERS_GRACE)
        await _cancel(working)
        await self.background.stop(self.drained_kinds, self.drain_seconds)
        await self.last_writes()

    async def _prerequisites(self) -> None:
        for reflector in self.reflectors:
            await reflector.wait_until_synced()
        if self.elector:
            await self.elector.leading.wait()

    async def _unless_stopped(self, waiting: Awaitable[None]) -> bool:
        """Wait for something, but not beyond a stop; whether it came first."""
        tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(waiting), asyncio.ensure_future(self._stop.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(*tasks)
        return not self._stop.is_set()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Stop at the first signal; a second one has its usual effect and ends the process at once."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            self.stop()
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

        for number in _SIGNALS:
            loop.add_signal_handler(number, stop)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)

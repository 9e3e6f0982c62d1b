"""Holds the Lease from a thread of its own, so that a busy event loop does not lose it.

The thread has a loop and connections of its own. What it must not do is keep a dead process in power: the loop that
does the work gives a sign of life every second, and without one the thread stops renewing. A process that has lost the
Lease and cannot even be told so is ended from the thread, before another one begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.lease import DEFAULT_LEASE, LeaderElector, LeadershipLost, LeasePolicy

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")
_BEAT_SECONDS = 0.2
_JOIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the thread bears with the loop that does the work, in seconds.

    Attributes:
        silence: Without a sign of life for longer, the Lease is no longer renewed. Far above any honest pause, and
            short enough that a hung leader is replaced within a minute.
        hearing: For the loop to hear that the Lease is lost; after that the process is ended.
    """

    silence: float = 30.0
    hearing: float = (DEFAULT_LEASE.duration - DEFAULT_LEASE.renew_deadline) / 2


def end_process() -> None:
    """End the process at once: it may work no more, and does not hear that."""
    _log.critical("the lease is lost and the event loop does not hear it: the process ends")
    os._exit(1)


class LeaseThread:
    """Leader election with the interface of `LeaderElector`, to be used from the loop that does the work.

    Args:
        client: Connection to the API server; from `run` on it belongs to the thread, which closes it.
        namespace: Of the Lease.
        name: Of the Lease.
        identity: Unique per process.
        on_change: Told in the thread whether this process leads, when that changes.
        policy: Timing of the election.
        patience: With the loop that does the work.
        on_deaf: Called in the thread when the loop does not hear that the Lease is lost.
    """

    def __init__(  # noqa: PLR0913 - those of the elector, and the injected policies
        self,
        client: KubernetesClient,
        namespace: str,
        name: str,
        identity: str,
        *,
        on_change: Callable[[bool], None] = lambda _: None,
        policy: LeasePolicy = DEFAULT_LEASE,
        patience: Patience = Patience(),
        on_deaf: Callable[[], None] = end_process,
    ) -> None:
        self.leading = asyncio.Event()
        self._client = client
        self._elector = LeaderElector(client, namespace, name, identity, on_change=self._changed, policy=policy)
        self._on_change = on_change
        self._patience = patience
        self._on_deaf = on_deaf
        self._sign_at = time.monotonic()
        self._heard = False
        self._work: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run_loop, name="lease", daemon=True)
        self._holding: asyncio.Task[NoReturn] | None = None

    async def run(self) -> NoReturn:
        """Wait for the Lease, set `leading`, and keep the Lease until cancelled.

        Raises:
            LeadershipLost: It could not be renewed in time, another process holds it, or this loop was silent.
        """
        self._work = asyncio.get_running_loop()
        self._loop = asyncio.new_event_loop()
        self._sign_at = time.monotonic()
        self._thread.start()
        living = asyncio.create_task(self._live())
        try:
            await self._in_thread(self._hold())
        except LeadershipLost:
            self._heard = True
            self.leading.clear()
            raise
        finally:
            living.cancel()
        raise AssertionError("the lease is held until it is lost")

    async def release(self) -> None:
        """Give the Lease up, so that the next process need not wait for its end. Call after `run` was cancelled."""
        if self._thread.is_alive():
            self.leading.clear()
            await self._in_thread(self._release())

    async def close(self) -> None:
        """End the thread and its connections."""
        if not self._thread.is_alive():
            await self._client.close()
            return
        await self._in_thread(self._stop_holding())
        await self._in_thread(self._client.close())
        assert self._loop is not None  # noqa: S101 - made before the thread starts
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, _JOIN_SECONDS)

    async def _live(self) -> NoReturn:
        while True:
            self._sign_at = time.monotonic()
            await asyncio.sleep(_BEAT_SECONDS)

    async def _in_thread(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        assert self._loop is not None  # noqa: S101 - as above
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    # From here on in the thread.

    def _run_loop(self) -> None:
        assert self._loop is not None  # noqa: S101 - as above
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _changed(self, leading: bool) -> None:
        self._on_change(leading)
        assert self._work is not None  # noqa: S101 - set before the thread starts
        with contextlib.suppress(RuntimeError):  # the loop is closed: there is nobody to tell
            self._work.call_soon_threadsafe(self.leading.set if leading else self.leading.clear)

    async def _hold(self) -> NoReturn:
        self._holding = asyncio.create_task(self._elector.run())
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait([self._holding, watching], return_when=asyncio.FIRST_COMPLETED)
            for each in (watching, self._holding):
                if each.done():
                    each.result()
        except LeadershipLost:
            asyncio.get_running_loop().call_later(self._patience.hearing, self._end_if_deaf)
            raise
        finally:
            watching.cancel()
            await self._stop_holding()
        raise AssertionError("neither ends but by an error")

    async def _watch(self) -> NoReturn:
        """See whether the loop lives, as often as it says so."""
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            silence = time.monotonic() - self._sign_at
            if self._elector.leading.is_set() and silence > self._patience.silence:
                raise LeadershipLost(f"the event loop gave no sign of life for {silence:.0f} s")

    def _end_if_deaf(self) -> None:
        if not self._heard:
            self._on_deaf()

    async def _stop_holding(self) -> None:
        if self._holding is not None and not self._holding.done():
            self._holding.cancel()
            await asyncio.wait([self._holding])

    async def _release(self) -> None:
        await self._stop_holding()
        await self._elector.release()

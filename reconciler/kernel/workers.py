"""The workers: take a key, reconcile it, decide when it comes back."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from reconciler.kernel.errors import Conflict, KubernetesError
from reconciler.kernel.json_log import log_context
from reconciler.kernel.metrics import ReconcileMetrics
from reconciler.kernel.queue import WorkQueue
from reconciler.kernel.resources import ObjectKey
from reconciler.kernel.timing import REAL_TIME, Timing

_log = logging.getLogger(__name__)

# One pass over a key. Returns the seconds after which it wants another, None to wait for a change.
Reconcile = Callable[[ObjectKey], Awaitable[float | None]]

REQUEUE_JITTER = 0.1
"""Requeues come back up to this share early, never late, so that keys which started together drift apart."""
# After a start the first round is spread by this much per key, up to the cap.
_SPREAD_PER_KEY = 0.01
_SPREAD_CAP = 30.0


@dataclass(kw_only=True)
class Workers:
    """A fixed number of workers on one queue.

    Attributes:
        reconcile: One pass over a key.
        queue: Where keys come from.
        metrics: Told about every pass.
        count: Passes at once, on different keys.
        timing: Time and chance.
    """

    reconcile: Reconcile
    queue: WorkQueue[ObjectKey]
    metrics: ReconcileMetrics
    count: int = 8
    timing: Timing = REAL_TIME

    async def run(self) -> None:
        """Work until the queue is closed and the passes under way have ended."""
        self.queue.spread_ready(min(_SPREAD_CAP, _SPREAD_PER_KEY * len(self.queue)))
        async with asyncio.TaskGroup() as group:
            for number in range(self.count):
                group.create_task(self._work(), name=f"worker-{number}")

    async def _work(self) -> None:
        while (key := await self.queue.get()) is not None:
            try:
                with log_context(object=str(key)), self.metrics.active_workers.track_inprogress():
                    await self._reconcile(key)
            finally:
                self.queue.done(key)

    async def _reconcile(self, key: ObjectKey) -> None:
        started = self.timing.clock()
        try:
            requeue_after = await self.reconcile(key)
        except Exception as error:  # noqa: BLE001 - one object's trouble is never another's; it is logged, counted, retried
            result = "error"
            self._retry(key, error)
        else:
            result = "success" if requeue_after is None else "requeue_after"
            self.queue.forget(key)
            self._requeue(key, requeue_after)
        self.metrics.reconciled(result, self.timing.clock() - started)

    def _requeue(self, key: ObjectKey, seconds: float | None) -> None:
        if seconds is not None:
            self.queue.add_after(key, seconds * (1 - REQUEUE_JITTER * self.timing.fraction()))

    def _retry(self, key: ObjectKey, error: Exception) -> None:
        delay = self.queue.add_rate_limited(key)
        if isinstance(error, Conflict):
            _log.info("changed meanwhile, next try in %.1f s: %s", delay, error)
        elif isinstance(error, KubernetesError):
            _log.warning("reconcile failed, next try in %.1f s: %s", delay, error)
        else:
            _log.error("reconcile failed, next try in %.1f s", delay, exc_info=error)

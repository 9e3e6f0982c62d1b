"""Leader election on a coordination.k8s.io Lease, by compare-and-swap.

Whether a record is expired is judged by our own monotonic clock since we last saw it change, never by the times
written in it: those come from another machine's wall clock (spec section 6 of the controller study).
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from reconciler.kernel.client import KubernetesClient
from reconciler.kernel.errors import AlreadyExists, Conflict, KernelError, KubernetesError, NotFound
from reconciler.kernel.resources import KubernetesObject, Resource, resource_version
from reconciler.kernel.retry import jittered
from reconciler.kernel.timing import REAL_TIME, Timing, micro_time

_log = logging.getLogger(__name__)

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
_RELEASE_SECONDS = 5.0


class LeadershipLost(KernelError):  # noqa: N818 - an event, not a mistake
    """Another process may be the leader by now: end this one at once."""


@dataclass(frozen=True, slots=True)
class LeasePolicy:
    """Timing of the election, in seconds.

    Attributes:
        duration: Others wait this long after the last renewal they saw.
        renew_deadline: The leader gives up this long after its last renewal; shorter than `duration`, so that it has
            ended before another begins.
        retry: Between renewals.
        look: Between looks of one that waits: how late it sees the last renewal, and then that it has run out.
        jitter: Of `retry` and `look`.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0
    look: float = 1.0
    jitter: float = 0.2


DEFAULT_LEASE = LeasePolicy()


class Election(Protocol):
    """A way to take a Lease and keep it."""

    leading: asyncio.Event
    """Set while this process leads."""

    async def run(self) -> NoReturn:
        """Wait for the Lease, set `leading`, and keep the Lease until cancelled."""

    async def release(self) -> None:
        """Give the Lease up. Call after `run` was cancelled."""


class LeaderElector:
    """Takes one Lease and keeps it.

    Args:
        client: Connection to the API server.
        namespace: Of the Lease.
        name: Of the Lease.
        identity: Unique per process, not per machine: a restarted process must not believe it still leads.
        on_change: Told whether this process leads, when that changes.
    """

    def __init__(  # noqa: PLR0913 - which Lease, who we are, and the injected policies
        self,
        client: KubernetesClient,
        namespace: str,
        name: str,
        identity: str,
        *,
        on_change: Callable[[bool], None] = lambda _: None,
        policy: LeasePolicy = DEFAULT_LEASE,
        timing: Timing = REAL_TIME,
    ) -> None:
        self.leading = asyncio.Event()
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._on_change = on_change
        self._policy = policy
        self._timing = timing
        self._lease: KubernetesObject = {}
        self._seen_version = ""
        self._seen_at = 0.0
        self._renewed_at = 0.0

    async def run(self) -> NoReturn:
        """Wait for the Lease, set `leading`, and renew it until cancelled.

        Raises:
            LeadershipLost: It could not be renewed in time, or another process holds it.
        """
        while not await self._try_to_acquire():
            await self._timing.sleep(self._jittered(self._policy.look))
        _log.info("%s leads by lease %s/%s", self._identity, self._namespace, self._name)
        self._set_leading(True)
        try:
            while True:
                await self._timing.sleep(min(self._jittered(self._policy.retry), self._remaining()))
                await self._renew_in_time()
        except LeadershipLost:
            self._set_leading(False)
            raise

    async def release(self) -> None:
        """Give the Lease up, so that the next process need not wait for its end. Call after `run` was cancelled."""
        if not self.leading.is_set():
            return
        self._set_leading(False)
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._read_again()  # A renewal that was cancelled may have been written all the same.
                spec = {
                    **self._lease["spec"],
                    "holderIdentity": "",
                    "leaseDurationSeconds": 1,
                    "renewTime": self._now(),
                }
                await self._swap(self._lease, spec)
        except (KernelError, TimeoutError) as error:
            _log.warning("the lease is not released and will expire instead: %s", error)

    def _set_leading(self, leading: bool) -> None:
        if leading:
            self.leading.set()
        else:
            self.leading.clear()
        self._on_change(leading)

    def _jittered(self, seconds: float) -> float:
        return jittered(seconds, self._policy.jitter, self._timing.fraction())

    async def _try_to_acquire(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._namespace, self._name)
            if lease is not None and not self._is_free(lease):
                return False
            started = self._timing.clock()  # Not before the look, which may have been repeated for long.
            async with asyncio.timeout(self._policy.renew_deadline):
                self._lease = await self._take(lease)
        except (Conflict, AlreadyExists):
            return False  # Another candidate was faster.
        except (KubernetesError, TimeoutError) as error:
            _log.warning("cannot take the lease: %s", error or "no answer in time")
            return False
        self._renewed_at = started
        return True

    def _is_free(self, lease: KubernetesObject) -> bool:
        """Whether the Lease may be taken: released, ours, or unchanged for as long as we ourselves would hold it."""
        if _holder(lease) in {"", self._identity}:
            return True
        now = self._timing.clock()
        if resource_version(lease) != self._seen_version:
            self._seen_version, self._seen_at = resource_version(lease), now
        return now - self._seen_at >= self._policy.duration

    async def _take(self, lease: KubernetesObject | None) -> KubernetesObject:
        now = self._now()
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._policy.duration)),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0 if lease is None else _transitions(lease) + 1,
        }
        if lease is None:
            return await self._client.create(LEASES, self._namespace, {"metadata": {"name": self._name}, "spec": spec})
        return await self._swap(lease, spec)

    async def _renew_in_time(self) -> None:
        """Make one attempt; failures are tolerated until the deadline."""
        remaining = self._remaining()
        if remaining <= 0:
            raise LeadershipLost(f"the lease was not renewed for {self._policy.renew_deadline:g} s")
        try:
            async with asyncio.timeout(remaining):
                await self._renew()
        except (KubernetesError, TimeoutError) as error:
            _log.warning("renewing the lease failed: %s", error or "no answer in time")

    def _remaining(self) -> float:
        """Seconds until the deadline; 0 when it has passed."""
        return max(0.0, self._renewed_at + self._policy.renew_deadline - self._timing.clock())

    async def _renew(self) -> None:
        started = self._timing.clock()
        try:
            self._lease = await self._swap(self._lease, {**self._lease["spec"], "renewTime": self._now()})
        except Conflict:
            await self._read_again()
            return
        except NotFound:
            self._lease = await self._take(None)  # Deleted by hand; whoever creates it first leads.
        self._renewed_at = started

    async def _read_again(self) -> None:
        """Tell a harmless change of the Lease, such as an annotation, from the loss of it."""
        lease = await self._client.get(LEASES, self._namespace, self._name)
        if lease is not None and _holder(lease) != self._identity:
            raise LeadershipLost(f"the lease is held by {_holder(lease) or 'nobody'}")
        if lease is not None:
            self._lease = lease

    async def _swap(self, lease: KubernetesObject, spec: dict[str, Any]) -> KubernetesObject:
        return await self._client.replace(LEASES, self._namespace, self._name, {**lease, "spec": spec})

    def _now(self) -> str:
        return micro_time(self._timing.now())


def _holder(lease: KubernetesObject) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _transitions(lease: KubernetesObject) -> int:
    transitions = (lease.get("spec") or {}).get("leaseTransitions")
    return transitions if isinstance(transitions, int) else 0

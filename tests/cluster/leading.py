"""Which of several reconcilers leads, how to end it, and how long it takes until another one does its work."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from api.keys import LEADER_LEASE
from components.platform.pod import HEALTH_PORT
from tests.cluster.killing import reconciler_process
from tests.cluster.observing import SYSTEM, Bench
from tools.cluster.processes import Process
from tools.kubectl import KubectlError, wait_until
from tools.observer import Object, is_observed

WITNESS = "witness"


class End(StrEnum):
    """How a leader ends."""

    KILL = "kill -9"
    DELETE = "kubectl delete pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """One change of leaders; seconds since the old leader's process was gone.

    Attributes:
        end: How the old one ended.
        stopping: From the deletion of its Pod until its process was gone; 0 after a kill.
        lease: Until the Lease had a new holder; 0 when it had one before.
        write: Until the new leader had written a status that the old one cannot have written.
    """

    end: End
    stopping: float
    lease: float
    write: float


@dataclass(slots=True)
class Leadership:
    """Looks at the Lease and ends whoever holds it.

    A DecisionModel that nothing can be done about is the witness: a change of its spec makes whoever leads write its
    status, and nothing else.
    """

    bench: Bench
    _changes: int = 0

    def begin(self) -> None:
        """Declare the witness."""
        self.bench.declare(WITNESS, "laya:no-such-tag")
        self._wait_for_witness(30)

    def leader(self) -> Object:
        """Return the leader's Pod; waits until a Pod that is there holds the Lease."""
        return wait_until("a Pod to lead", lambda: self._pods().get(self._holder()), 60)

    def end_leader(self, end: End) -> Takeover:
        """End the leader now and measure until another one works."""
        old = self.leader()["metadata"]
        return self.end_pod(old["name"], reconciler_process(self.bench.environment, old["uid"]), end)

    def end_pod(self, pod: str, process: Process, end: End) -> Takeover:
        """End this leader now and measure until another one works."""
        asked = time.monotonic()
        if end is End.KILL:
            process.kill()
        else:
            self._delete(pod, "--wait=false")
        wait_until("the leader's process to be gone", lambda: not process.is_alive, 60, every=0.01)
        ended = time.monotonic()
        taken = 0.0 if self._holder() != pod else None
        if end is End.KILL:
            # Its container would only start again, later each time: another Pod is what a cluster offers as well.
            self._delete(pod, "--grace-period=0", "--force", "--wait=false")
        self._change_witness()
        if taken is None:
            self._wait_for_holder_other_than(pod)
            taken = time.monotonic() - ended
        self._wait_for_witness(30)
        written = time.monotonic() - ended
        stopping = ended - asked if end is End.DELETE else 0.0
        return Takeover(end=end, stopping=stopping, lease=taken, write=written)

    def wait_for_standby(self) -> None:
        """Wait until a second Pod is ready to take over, by its own word: the kubelet asks for it only now and then."""
        wait_until("a second ready Pod", lambda: sum(map(self._is_ready, self._pods())) == 2, 90, every=0.3)

    def _pods(self) -> dict[str, Object]:
        pods = self.bench.kubectl.list("pods", SYSTEM)
        return {pod["metadata"]["name"]: pod for pod in pods if "deletionTimestamp" not in pod["metadata"]}

    def _is_ready(self, pod: str) -> bool:
        try:
            return bool(self.bench.proxied(SYSTEM, f"pod/{pod}", HEALTH_PORT, "/readyz"))
        except KubectlError:
            return False

    def _holder(self) -> str:
        lease = self.bench.kubectl.get("lease", LEADER_LEASE, SYSTEM) or {}
        return str(lease.get("spec", {}).get("holderIdentity", "")).partition("_")[0]

    def _wait_for_holder_other_than(self, pod: str) -> None:
        wait_until("another holder of the Lease", lambda: self._holder() not in {"", pod}, 60, every=0.05)

    def _delete(self, pod: str, *options: str) -> None:
        self.bench.kubectl.run("delete", "pod", pod, "-n", SYSTEM, *options)

    def _change_witness(self) -> None:
        self._changes += 1
        self.bench.edit(WITNESS, replicas=1 + self._changes)

    def _wait_for_witness(self, timeout: float) -> None:
        wait_until("the witness's status", lambda: is_observed(self.bench.model(WITNESS)), timeout, every=0.05)


def stall_downloads(bench: Bench, seconds: float) -> None:
    """Let the next download of a blob hang for a while."""
    failure: dict[str, Any] = {"kind": "stall", "after_bytes": 1, "seconds": seconds}
    bench.registry("PUT", "/switches", [{"path": "*/blobs/*", "times": 1, "failure": failure}])


def golden(cases: int) -> str:
    """Return a data set of yes-no questions."""
    question = {"q": {"type": "noul"}}
    lines = ({"state": f"case {number}", "questions": question, "expected": {"q": True}} for number in range(cases))
    return "\n".join(json.dumps(line) for line in lines)

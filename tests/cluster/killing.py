"""Ends processes of the reconciler's Pod from outside, at random moments, as a machine in trouble does.

A signal from within the Pod would not do: process 1 of a container is out of its own namespace's reach.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from random import Random

from tests.cluster.observing import OPERATOR, SYSTEM
from tools.cluster.processes import Process, identify
from tools.environment import Environment
from tools.kubectl import wait_until
from tools.observer import Object


class Victim(Enum):
    """A process of the reconciler's Pod: how its command line begins, and the seconds it may live on when seen."""

    RECONCILER = ("python3 -m reconciler.main", 3.0)
    CLI = ("/usr/local/bin/pulumi --non-interactive", 0.3)
    PROVIDER = ("/opt/pulumi/plugins/", 0.3)


@dataclass
class Killer:
    """Kills processes of one cluster's reconciler and of nothing else; `kills` counts those that were alive."""

    environment: Environment
    random: Random
    kills: list[Victim] = field(default_factory=list)

    def begin_unrestarted(self) -> None:
        """Begin with a Pod whose container never ended: the kubelet restarts later each time of the Pod's life."""
        if self._pod()["status"]["containerStatuses"][0]["restartCount"] == 0:
            return
        deployment = (f"deployment/{OPERATOR}", "-n", SYSTEM)
        self.environment.kubectl.run("rollout", "restart", *deployment)
        self.environment.kubectl.run("rollout", "status", *deployment, "--timeout=120s", timeout=150)

    def kill(self, *victims: Victim) -> None:
        """Kill a process of each of these kinds, one after the other, each at a random moment of its life."""
        groups = self._control_groups()
        for victim in victims:
            wait_until(f"a {victim.name} to kill", partial(self._kill_one, victim, groups), 180, every=0.01)
            self.kills.append(victim)

    def wait_until_idle(self) -> None:
        """Wait until the operation that runs has ended."""
        groups = self._control_groups()
        wait_until("the operation to end", lambda: not list(_processes(Victim.CLI, groups)), 60, every=0.01)

    def _pod(self) -> Object:
        pods = self.environment.kubectl.list("pods", SYSTEM)
        (pod,) = (pod for pod in pods if "deletionTimestamp" not in pod["metadata"])
        return pod

    def _control_groups(self) -> tuple[str, str]:
        return _control_groups(self.environment, self._pod()["metadata"]["uid"])

    def _kill_one(self, victim: Victim, groups: tuple[str, str]) -> bool:
        found = next(_processes(victim, groups), None)
        if found is None:
            return False
        _, longest = victim.value
        # No condition tells the moment: that it is any moment is the point.
        time.sleep(self.random.uniform(0, longest))
        was_alive = found.is_alive
        found.kill()
        return was_alive


def reconciler_process(environment: Environment, pod_uid: str) -> Process:
    """Return the first process of a reconciler's Pod: when it dies, the kernel kills all others of its container."""
    groups = _control_groups(environment, pod_uid)
    return wait_until("the Pod's first process", lambda: next(_processes(Victim.RECONCILER, groups), None), 30)


def _control_groups(environment: Environment, pod_uid: str) -> tuple[str, str]:
    """Return what is in the control group's name of a Pod's processes: the cluster, and the Pod."""
    return f"/{environment.cluster.layout.control_group}/", f"/pod{pod_uid}/"


def _processes(victim: Victim, groups: tuple[str, str]) -> Iterator[Process]:
    command, _ = victim.value
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        process = identify(int(entry.name))
        # It may end while it is looked at.
        with suppress(FileNotFoundError, ProcessLookupError):
            belongs = (entry / "cgroup").read_text()
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if process and words.startswith(command) and all(group in belongs for group in groups):
                yield process

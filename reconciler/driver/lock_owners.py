"""Whether the owner of a backend lock may still be at work."""

from __future__ import annotations

import socket
import time
from datetime import UTC, datetime, timedelta
from os import sysconf

from reconciler.driver.recovery import LockOwner
from reconciler.driver.sessions import ProcessStat, read_stat

_CLOCK_SLACK = timedelta(seconds=2)
"""The lock's time and the process table's are rounded to seconds and to clock ticks."""


def lives(owner: LockOwner) -> bool:
    """Whether the lock's owner is a process of this host that still runs.

    A process of another host counts as dead: the caller's Lease says so (see `recovery`). On this host the pid must
    belong to a process that is older than the lock, since a restarted container counts its pids anew.
    """
    if owner.host != socket.gethostname():
        return False
    stat = read_stat(owner.pid)
    return stat is not None and stat.state != "Z" and _started_at(stat) <= owner.locked_at + _CLOCK_SLACK


def _started_at(stat: ProcessStat) -> datetime:
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - stat.started / sysconf("SC_CLK_TCK")
    return datetime.now(UTC) - timedelta(seconds=age)

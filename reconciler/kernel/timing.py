"""Time and chance as one value, passed to everything that waits, so that tests decide both."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the wall clock's time, for records that others read; never for measuring."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Timing:
    """The sources of time and chance.

    Attributes:
        clock: Monotonic seconds, for measuring.
        now: Wall clock, for records that others read.
        sleep: Waits so many seconds.
        fraction: A random number in [0, 1), for jitter.
    """

    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = utc_now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    fraction: Callable[[], float] = random.random


REAL_TIME = Timing()


def micro_time(moment: datetime) -> str:
    """Write a Kubernetes MicroTime: the API server refuses one without exactly six decimals."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

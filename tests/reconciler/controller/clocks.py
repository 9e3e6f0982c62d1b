"""A clock that moves when told to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from reconciler.kernel.timing import Timing

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class ManualClock:
    """Seconds since the start, for measuring and for records alike; sleeping takes none of them.

    Each look takes a nanosecond, so that what is due in almost no time becomes due.
    """

    seconds: float = 0.0
    fraction: float = 1e-9
    """What is drawn wherever chance decides, from 0 to 1."""

    def monotonic(self) -> float:
        self.seconds += 1e-9
        return self.seconds

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def stamp(self) -> str:
        """The time as objects carry it."""
        return self.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def timing(self) -> Timing:
        return Timing(
            clock=self.monotonic, now=self.now, sleep=lambda _: asyncio.sleep(0), fraction=lambda: self.fraction
        )

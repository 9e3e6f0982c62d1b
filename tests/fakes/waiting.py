"""Waiting on conditions, for asynchronous tests."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until a condition holds, letting everything else in the loop run meanwhile.

    Raises:
        TimeoutError: It did not come to hold.
    """
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the condition may depend on anything
            await asyncio.sleep(0.002)

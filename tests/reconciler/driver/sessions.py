"""A driver from its start to its end, for tests that ask one thing of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from reconciler.driver import DriverSettings, StackDriver

Answer = TypeVar("Answer")


async def with_driver(settings: DriverSettings, use: Callable[[StackDriver], Coroutine[Any, Any, Answer]]) -> Answer:
    """Start a driver, use it, and close it without waiting for what still runs."""
    driver = StackDriver(settings)
    await driver.start()
    try:
        return await use(driver)
    finally:
        await driver.close(grace_seconds=0)

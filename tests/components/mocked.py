"""Runs a Pulumi program against a mocked engine, in event loops of its own.

The SDK's own way (`pulumi.runtime.test`) uses whatever loop the thread has: another test's may be closed, and the mock
monitor's threads would each leave one unclosed.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from pulumi.runtime.stack import run_pulumi_func


def run_mocked(mock: Callable[[], None], program: Callable[[], None]) -> None:
    """Call `mock`, which sets the mocks, and then run `program` until everything it declares is registered."""

    async def mocked(calls: ThreadPoolExecutor) -> None:
        asyncio.get_running_loop().set_default_executor(calls)
        mock()
        await run_pulumi_func(program)

    # The mock monitor wants an event loop in the thread that calls it.
    with closing(asyncio.new_event_loop()) as loop:
        calls = ThreadPoolExecutor(1, initializer=asyncio.set_event_loop, initargs=(loop,))
        contextvars.copy_context().run(asyncio.run, mocked(calls))

"""The driver's side of a worker process: spawn it, give it a program, get the engine's report back."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

import msgspec

from reconciler.driver import messages
from reconciler.driver.command import worker_environment
from reconciler.driver.errors import WorkerLostError
from reconciler.driver.events import EngineReport

_START_SECONDS = 60.0
_ANSWER_SECONDS = 15.0


class WorkerProcess:
    """A live worker. Not for concurrent use: the pool lends it to one operation at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._broken = False
        self.served = 0

    @classmethod
    async def spawn(cls, preload: Sequence[str]) -> WorkerProcess:
        """Start a fresh interpreter (never a fork: gRPC threads do not survive one) and wait until it is warm.

        Raises:
            WorkerLostError: It did not come up.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "reconciler.driver.worker",
                *preload,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=worker_environment(os.environ, sys.path),
                # Out of reach of signals to the driver's process group; it ends with its pipe.
                start_new_session=True,
            )
        except OSError as error:
            raise WorkerLostError(f"a worker process cannot be started: {error}") from error
        worker = cls(process)
        try:
            await asyncio.wait_for(worker._receive(), _START_SECONDS)
        except (OSError, EOFError, TimeoutError, ValueError, msgspec.DecodeError) as error:
            await worker.kill()
            raise WorkerLostError(f"worker process {process.pid} did not start: {error!r}") from error
        except asyncio.CancelledError:
            await worker.kill()
            raise
        return worker

    @property
    def pid(self) -> int:
        """Process id, for tests and logs."""
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Whether it lives and every exchange so far ended as it should."""
        # The end of its output is known before its exit code is.
        ended = self._process.stdout is None or self._process.stdout.at_eof()
        return not self._broken and not ended and self._process.returncode is None and not self._is_collected()

    def _is_collected(self) -> bool:
        """Whether the process is gone altogether, which the event loop may not have been told yet."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        return False

    async def serve(self, program: bytes | None) -> str | messages.Rejected:
        """Let it serve a pickled program (None: an empty one); the answer is the address to give to the CLI.

        Raises:
            WorkerLostError: It is gone or does not answer.
        """
        self.served += 1
        answer = await self._exchange(messages.Serve(program))
        if isinstance(answer, messages.Serving):
            return answer.address
        if isinstance(answer, messages.Rejected):
            return answer
        raise self._out_of_step(answer)

    async def finish(self) -> EngineReport:
        """End what `serve` began, after the CLI process is gone.

        Raises:
            WorkerLostError: It is gone or does not answer; the report is lost.
        """
        answer = await self._exchange(messages.Finish())
        if isinstance(answer, messages.Finished):
            return answer.report
        raise self._out_of_step(answer)

    def _out_of_step(self, answer: messages.WorkerMessage) -> WorkerLostError:
        self._broken = True
        return WorkerLostError(f"worker process {self.pid} answered out of step: {type(answer).__name__}")

    async def kill(self) -> None:
        """End it at once and collect it. A program that hangs cannot object."""
        self._broken = True
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def _exchange(self, message: messages.DriverMessage) -> messages.WorkerMessage:
        if not self.usable:
            raise WorkerLostError(f"worker process {self.pid} is gone")
        # Broken until the answer is here: a cancelled or failed exchange leaves the pipe out of step.
        self._broken = True
        try:
            answer = await asyncio.wait_for(self._send_and_receive(message), _ANSWER_SECONDS)
        except (OSError, EOFError, TimeoutError, ValueError, msgspec.DecodeError) as error:
            raise WorkerLostError(f"worker process {self.pid} does not answer: {error!r}") from error
        self._broken = False
        return answer

    async def _send_and_receive(self, message: messages.DriverMessage) -> messages.WorkerMessage:
        if self._process.stdin is None:
            raise EOFError
        self._process.stdin.write(messages.encode(message))
        await self._process.stdin.drain()
        return await self._receive()

    async def _receive(self) -> messages.WorkerMessage:
        if self._process.stdout is None:
            raise EOFError
        prefix = await self._process.stdout.readexactly(messages.LENGTH_BYTES)
        return messages.decode_for_driver(await self._process.stdout.readexactly(messages.body_length(prefix)))

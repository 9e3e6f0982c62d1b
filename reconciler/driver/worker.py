"""A worker process: keeps Python and the SDK warm, and serves one program at a time to the CLI.

Started as `python -m reconciler.driver.worker MODULE…` by `worker_process`, which talks to it over stdin and stdout
and is the one that runs the CLI. It ends when its stdin does, so it never outlives the driver.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import traceback
from typing import BinaryIO

from reconciler.driver import messages
from reconciler.driver.operation import Program
from reconciler.driver.program_host import ProgramHost, empty_program


def main() -> None:
    """Serve programs until the driver closes the pipe."""
    channel = os.fdopen(os.dup(1), "wb")
    # What a program prints must not end up between the messages.
    os.dup2(2, 1)
    for module in sys.argv[1:]:
        importlib.import_module(module)
    _send(channel, messages.Ready())
    _serve(sys.stdin.buffer, channel)


def _serve(incoming: BinaryIO, outgoing: BinaryIO) -> None:
    host: ProgramHost | None = None
    while (message := _receive(incoming)) is not None:
        if isinstance(message, messages.Serve):
            host, reply = _start(message)
        elif host is not None:
            reply, host = messages.Finished(host.close()), None
        else:
            continue
        _send(outgoing, reply)


def _send(outgoing: BinaryIO, message: messages.WorkerMessage) -> None:
    outgoing.write(messages.encode(message))
    outgoing.flush()


def _start(message: messages.Serve) -> tuple[ProgramHost | None, messages.WorkerMessage]:
    try:
        program: Program = empty_program if message.program is None else pickle.loads(message.program)  # noqa: S301 -- our own parent's
    except Exception as error:  # noqa: BLE001 -- unpickling imports modules, which may raise anything
        return None, messages.Rejected(f"the program cannot be loaded: {type(error).__name__}: {error}")
    host = ProgramHost(program)
    return host, messages.Serving(host.address)


def _receive(incoming: BinaryIO) -> messages.DriverMessage | None:
    prefix = incoming.read(messages.LENGTH_BYTES)
    if len(prefix) < messages.LENGTH_BYTES:
        return None
    return messages.decode_for_worker(incoming.read(messages.body_length(prefix)))


if __name__ == "__main__":
    # Left through os._exit: threads of a program that hangs would keep an ordinary exit waiting.
    try:
        main()
    except Exception:  # noqa: BLE001 -- last stop; the driver sees the pipe end
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

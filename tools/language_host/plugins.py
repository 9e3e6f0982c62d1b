"""Runs a plug-in that lies in a directory, as the engine asks its language hosts to: policy packs are such."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_CHUNK_BYTES = 64 * 1024
_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of what a plug-in wrote."""

    stream: str
    """`stdout` or `stderr`."""
    content: bytes


class PluginProcess:
    """One plug-in: a directory with a `__main__.py`, run by this checkout's own interpreter.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, directory: Path, arguments: Sequence[str], environment: Mapping[str, str], where: Path) -> None:
        self._process = subprocess.Popen(
            # Unbuffered: the engine waits for the line with the port.
            [sys.executable, "-u", str(directory), *arguments],
            cwd=where,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def output(self) -> Iterator[Said]:
        """Yield what it writes until it closes both streams."""
        pieces: queue.SimpleQueue[Said | None] = queue.SimpleQueue()
        streams = {"stdout": self._process.stdout, "stderr": self._process.stderr}
        for name, stream in streams.items():
            threading.Thread(target=_forward, args=(name, stream, pieces), daemon=True).start()
        for _ in streams:
            yield from iter(pieces.get, None)

    def exit_code(self) -> int:
        """Wait for its end; a signal's number is negative."""
        return self._process.wait()

    def end(self) -> None:
        """Ask it to end, and insist after some seconds."""
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()


def _forward(name: str, stream: IO[bytes] | None, pieces: queue.SimpleQueue[Said | None]) -> None:
    while stream is not None and (content := os.read(stream.fileno(), _CHUNK_BYTES)):
        pieces.put(Said(name, content))
    pieces.put(None)

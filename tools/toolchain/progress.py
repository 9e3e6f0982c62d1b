"""A line that a person can follow while a long step runs."""

import subprocess
import sys
import time

_PLAIN_INTERVAL_SECONDS = 15.0
_TERMINAL_INTERVAL_SECONDS = 1.0


def progress_line(step: str, elapsed_seconds: float, expected: str) -> str:
    """Say what runs, for how long already, and how long it usually takes."""
    minutes, seconds = divmod(int(elapsed_seconds), 60)
    return f"{step}: {minutes}:{seconds:02d} ({expected})"


def follow(process: subprocess.Popen[bytes], step: str, expected: str) -> int:
    """Wait for a process and show its progress; a terminal gets one living line, a log plain lines now and then.

    Returns:
        The process's exit code.
    """
    terminal = sys.stderr.isatty()
    interval = _TERMINAL_INTERVAL_SECONDS if terminal else _PLAIN_INTERVAL_SECONDS
    started = time.monotonic()
    while True:
        line = progress_line(step, time.monotonic() - started, expected)
        print(f"\r{line}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)
        try:
            return process.wait(timeout=interval)
        except subprocess.TimeoutExpired:
            continue
        finally:
            if terminal and process.returncode is not None:
                print(file=sys.stderr)

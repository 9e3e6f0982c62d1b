"""``ollaya serve``: the daemon as a process, with its log, PID file and signals (spec sections 1.4 and 1.5)."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

from .daemon import Daemon
from .errors import StandinError
from .settings import Settings

_log = logging.getLogger("ollaya")


class ServeError(StandinError):
    """The daemon cannot start: the port is taken, or the store cannot be used."""


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT and return 0; ServeError when the start fails."""
    _open_log(settings)
    # Blocked before any thread exists, so that they wait for sigwait: a Python handler runs between any two steps of
    # the main thread, also while that holds the lock which the handler would need.
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    if os.getpid() == 1:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # process 1 inherits orphans; ignored, they leave no zombies
    daemon = Daemon(settings)
    try:
        daemon.start()
    except OSError as error:
        raise ServeError(_start_failure(settings, error)) from None
    _warn_if_open(settings)
    pid_file = _write_pid_file(settings)
    signal.sigwait(signals)
    daemon.stop()
    if pid_file is not None:
        pid_file.unlink(missing_ok=True)
    return 0


def pid_path(settings: Settings) -> Path:
    """Return where the daemon of this port writes its process id."""
    return settings.home / ".ollaya" / f"server.{settings.address.port}.pid"


def _open_log(settings: Settings) -> None:
    level = logging.DEBUG if "debug" in settings.log_level else logging.INFO
    line_format = "%(asctime)s %(levelname)s %(message)s"
    if settings.log_dir is None:
        logging.basicConfig(level=level, format=line_format, stream=sys.stderr)
        return
    try:
        settings.log_dir.mkdir(parents=True, exist_ok=True)
        logging.basicConfig(level=level, format=line_format, filename=settings.log_dir / "server.log")
    except OSError as error:
        raise ServeError(f"OLLAYA_LOG_DIR: {settings.log_dir}: {error.strerror}") from None


def _start_failure(settings: Settings, error: OSError) -> str:
    if error.filename is not None:
        return f"preparing the store: {error.filename}: {error.strerror}"
    return f"cannot listen on {settings.address}: {error.strerror}, is another server running?"


def _warn_if_open(settings: Settings) -> None:
    if settings.api_key is None and not settings.address.is_loopback:
        _log.warning("listening beyond loopback without OLLAYA_API_KEY address=%s", settings.address)


def _write_pid_file(settings: Settings) -> Path | None:
    path = pid_path(settings)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{os.getpid()}\n", "ascii")
    except OSError as error:
        _log.warning("no PID file path=%s reason=%s", path, error.strerror)
        return None
    return path

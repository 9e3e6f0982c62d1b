"""A whole daemon: the parts wired together, started on a port, stopped in order (spec section 1.5)."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from .catalog import Catalog
from .clock import Clock
from .control import Control
from .decisions import Decisions
from .endpoints import Endpoints
from .http_server import HttpServer
from .loading import LoadedModel, Loader
from .presets import Presets
from .pull import PullDesk, Puller
from .residency import Residency
from .routes import Routes
from .settings import Settings, parse_settings
from .store import Store
from .switches import SwitchBoard, Switches
from .tally import RequestTally

DRAIN_SECONDS: Final = 5.0
REAP_SECONDS: Final = 0.5
_DEFAULT_EXIT_CODE: Final = 1
_log = logging.getLogger("ollaya")


class Daemon:
    """One running stand-in. As a context manager it is started on entry and stopped on exit.

    Args:
        settings: what the environment says; port 0 takes a free one.
        clock: time of residency and stamps; loads take real time.
        exit_process: called with a code when the `exit_after` switch fires.
    """

    def __init__(
        self, settings: Settings, clock: Clock | None = None, exit_process: Callable[[int], object] = os._exit
    ) -> None:
        self.settings = settings
        self.board = SwitchBoard(settings.switches)
        self.store = Store(settings.models, settings.registry)
        clock = clock or Clock()
        self._stopping = threading.Event()
        self.residency = Residency(clock, self.board, settings.max_loaded_models)
        self._loader = Loader(
            self.store, self.board, settings.device, settings.load_timeout, self._stopping, self._after_load
        )
        self._pulls = PullDesk(Puller(settings, self.store, self.board))
        presets = Presets(settings.models / "presets")
        catalog = Catalog(self.store, settings.registry)
        decisions = Decisions(settings, catalog, presets, self.residency, self._loader, clock)
        endpoints = Endpoints(
            settings, self.store, catalog, self.board, self.residency, decisions, self._pulls, presets
        )
        self._tally = RequestTally()
        self._routes = Routes(endpoints, self._tally)
        self._exit_process = exit_process
        self._exit_timer: threading.Timer | None = None
        self._servers: list[HttpServer] = []

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], models: Path | None = None, clock: Clock | None = None
    ) -> Self:
        """Return a daemon for tests: on a free loopback port unless ``OLLAYA_HOST`` says otherwise."""
        chosen = {} if models is None else {"OLLAYA_MODELS": str(models)}
        return cls(parse_settings({"OLLAYA_HOST": "127.0.0.1:0", **environment, **chosen}), clock)

    def start(self) -> None:
        """Open the ports; OSError when the store cannot be used or a port is taken."""
        self.store.prepare()
        address = self.settings.address
        self._listen(HttpServer((address.host, address.port), self._routes))
        if address.host in {"127.0.0.1", "localhost"} and address.port != 0:
            self._try_to_listen_on_ipv6(address.port)
        if self.settings.control is not None:
            control = Control(self.board, self.residency, self._tally, self._reschedule_exit)
            self._listen(HttpServer((self.settings.control.host, self.settings.control.port), control))
        threading.Thread(target=self._reap_until_stopped, daemon=True).start()
        self._schedule_exit(self.board.current)
        _log.info("Ollaya is running address=%s version=%s models=%s", address, self.settings.version, self.store.root)

    def stop(self) -> None:
        """Stop accepting, let requests finish for up to `DRAIN_SECONDS`, then end children and connections."""
        _log.info("shutting down")
        self._stopping.set()
        self._pulls.cancel_all()
        if self._exit_timer is not None:
            self._exit_timer.cancel()
        for server in self._servers:
            server.drain(DRAIN_SECONDS)
        self._servers.clear()

    @property
    def base_url(self) -> str:
        """Where the API answers."""
        return _url(self._servers[0])

    @property
    def control_url(self) -> str:
        """Where the control listener answers, when it is on."""
        return _url(self._servers[-1])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _listen(self, server: HttpServer) -> None:
        server.start()
        self._servers.append(server)

    def _try_to_listen_on_ipv6(self, port: int) -> None:
        try:
            self._listen(HttpServer(("::1", port), self._routes))
        except OSError as error:
            _log.debug("not listening on [::1]:%d: %s", port, error.strerror)

    def _reap_until_stopped(self) -> None:
        while not self._stopping.wait(REAP_SECONDS):
            self.residency.reap()

    def _reschedule_exit(self, switches: Switches) -> None:
        if self._exit_timer is not None:
            self._exit_timer.cancel()
        self._schedule_exit(switches)

    def _after_load(self, loaded: LoadedModel) -> None:
        self._schedule_exit(loaded.parameters.switches)

    def _schedule_exit(self, switches: Switches) -> None:
        if switches.exit_after is None:
            return
        code = _DEFAULT_EXIT_CODE if switches.exit_code is None else switches.exit_code
        self._exit_timer = threading.Timer(switches.exit_after, self._exit_process, [code])
        self._exit_timer.daemon = True
        self._exit_timer.start()


def _url(server: HttpServer) -> str:
    host, port = server.server_address[:2]
    return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

"""The commands that talk to a daemon, and the daemon that ``pull`` starts for itself (spec section 5.3)."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from .errors import StandinError
from .names import parse_model_name
from .serve import pid_path
from .settings import Address, Settings

START_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1
_ANSWER_SECONDS: Final = 5.0
_LINE_SECONDS: Final = 600.0
_LONGEST_LINE: Final = 1024 * 1024


class CommandError(StandinError):
    """A command failed; the text is what follows ``Error: ``."""


def version(settings: Settings) -> int:
    """Print the version of the server that answers, else of this program."""
    client = Client(settings)
    if client.answers():
        print(f"ollaya version is {client.call('GET', '/api/version')['version']}")
    else:
        print(f"ollaya version is {settings.version} (client)")
    return 0


def run(parsed: argparse.Namespace, settings: Settings) -> int:
    """Run the command of `parsed`; StandinError says what failed."""
    client = Client(settings)
    if parsed.command in {"pull", "show", "rm"}:
        parse_model_name(parsed.model, settings.registry)  # a bad name fails before a daemon is started
    if parsed.command == "stop" and parsed.model is None:
        return _stop_server(settings)
    client.ensure_daemon()
    match parsed.command:
        case "pull":
            _pull(client, parsed.model)
        case "list" | "ls":
            _print_models(client.call("GET", "/api/tags")["models"], ("name", "digest", "size", "modified_at"))
        case "ps":
            _print_models(client.call("GET", "/api/ps")["models"], ("name", "digest", "size", "device", "expires_at"))
        case "show":
            print(json.dumps(client.call("POST", "/api/show", {"model": parsed.model}), indent=2))
        case "rm":
            client.call("DELETE", "/api/delete", {"model": parsed.model})
        case "cp":
            client.call("POST", "/api/copy", {"source": parsed.source, "destination": parsed.destination})
        case "stop":
            client.call("POST", "/api/decide", {"model": parsed.model, "keep_alive": 0})
    return 0


class Client:
    """HTTP calls to the daemon at ``OLLAYA_HOST``; a wildcard address is reached over loopback."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._address = _reachable(settings.address)

    def answers(self) -> bool:
        """Tell whether a daemon answers `/`."""
        try:
            with self._response("HEAD", "/", None, _ANSWER_SECONDS) as response:
                return response.status == 200
        except CommandError:
            return False

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the JSON answer, empty for an empty one; CommandError for an error of the API."""
        with self._response(method, path, body, _LINE_SECONDS) as response:
            return _checked(response.read(), response.status)

    def lines(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the lines of a stream; CommandError for an error, as a status or as a line."""
        with self._response("POST", path, body, _LINE_SECONDS) as response:
            while line := response.readline(_LONGEST_LINE):
                yield _checked(line, response.status)

    def ensure_daemon(self) -> None:
        """Start a daemon if none answers and the address is of this machine; CommandError if it never answers."""
        if self.answers():
            return
        if not self._settings.address.is_local:
            raise CommandError(f"could not connect to the server at {self._settings.address}")
        log = _open_server_log(self._settings.home)
        if self._settings.switches.pull_start_failure:
            raise _never_answered(log)
        self._start_daemon(log)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.answers():
                return
            time.sleep(_POLL_SECONDS)
        raise _never_answered(log)

    def _start_daemon(self, log: Path) -> None:
        package = __package__ or "ollaya"
        with log.open("ab") as output:
            subprocess.Popen(  # detached on purpose: it outlives this command, or dies with the container's process 1
                [sys.executable, "-m", package, "serve"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
            )

    def _response(
        self, method: str, path: str, body: dict[str, Any] | None, seconds: float
    ) -> http.client.HTTPResponse:
        kind = http.client.HTTPSConnection if self._address.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._address.host, self._address.port, timeout=seconds)
        headers = {"Connection": "close"}
        if self._settings.api_key is not None:
            headers["Authorization"] = f"Bearer {self._settings.api_key}"
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, self._address.prefix + path, content, headers)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise CommandError(f"could not connect to the server at {self._settings.address}: {error}") from None


def _pull(client: Client, model: str) -> None:
    last: dict[str, Any] = {}
    for last in client.lines("/api/pull", {"model": model}):
        if sys.stderr.isatty():
            print(f"\r{last.get('status', '')}\033[K", end="", file=sys.stderr, flush=True)
    if last.get("status") != "success":
        raise CommandError("the server stopped before the pull was done")


def _checked(body: bytes, status: int) -> dict[str, Any]:
    try:
        document = json.loads(body) if body.strip() else {}
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise CommandError(f"the server answered {status} with something that is not JSON")
    if status >= 400 or "error" in document:
        raise CommandError(str(document.get("error", f"the server answered {status}")))
    return document


def _reachable(address: Address) -> Address:
    return replace(address, host={"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host))


def _open_server_log(home: Path) -> Path:
    directory = home / ".ollaya" / "logs"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        log = directory / "server.log"
        log.open("ab").close()
    except OSError as error:
        raise CommandError(f"creating {directory}: {error.strerror} (os error {error.errno})") from None
    return log


def _never_answered(log: Path) -> CommandError:
    return CommandError(f"the server did not start within {START_SECONDS:g} s, see {log}")


def _stop_server(settings: Settings) -> int:
    path = pid_path(settings)
    try:
        os.kill(int(path.read_text("ascii")), signal.SIGTERM)
    except (OSError, ValueError):
        raise CommandError(f"no server to stop: {path} names no running process") from None
    return 0


def _print_models(models: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    rows = [
        [column.upper() for column in columns],
        *([_cell(model.get(column)) for column in columns] for model in models),
    ]
    widths = [max(len(row[index]) for row in rows) for index in range(len(columns))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    return "Forever" if value is None else str(value)

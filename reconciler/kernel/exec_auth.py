"""Authentication by an exec plugin: it is run when a credential is needed, and asked again when that is over."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import signal
import ssl
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from tempfile import NamedTemporaryFile
from typing import Final

import httpx2

from reconciler.kernel.exec_plugin import Credential, ExecPlugin, PluginError, parse_credential

PLUGIN_SECONDS: Final = 60.0
"""How long a plugin may take that asks nobody."""
PERSON_SECONDS: Final = 300.0
"""How long one may take that asks a person."""
OUTPUT_LIMIT: Final = 1 << 20
"""Bytes of its answer."""

_COMPLAINT_BYTES: Final = 600
_CHUNK: Final = 1 << 14


def _utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


Run = Callable[[ExecPlugin], Awaitable[bytes]]


async def run_plugin(plugin: ExecPlugin, *, terminal: bool | None = None, seconds: float | None = None) -> bytes:
    """Return what a plugin prints.

    Args:
        plugin: Which.
        terminal: Whether somebody is there to be asked; None to find out.
        seconds: How long it may take; None for the limits above.

    Raises:
        PluginError: It cannot be started, fails, takes too long or says too much.
    """
    interactive = plugin.is_interactive(terminal=_has_terminal() if terminal is None else terminal)
    limit = seconds if seconds is not None else PERSON_SECONDS if interactive else PLUGIN_SECONDS
    process = await _start(plugin, interactive=interactive)
    try:
        async with asyncio.timeout(limit):
            output, complaint = await asyncio.gather(_answer(plugin, process), _complaint(process))
            code = await process.wait()
    except TimeoutError as error:
        raise PluginError(f"exec plugin {plugin.command} was not done after {limit:g} s") from error
    finally:
        await _end(process, alone=not interactive)
    if code != 0:
        said = f": {complaint}" if complaint else ""
        raise PluginError(f"exec plugin {plugin.command} ended with {code}{said}")
    return output


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


async def _start(plugin: ExecPlugin, *, interactive: bool) -> asyncio.subprocess.Process:
    """Start it; only one that asks a person gets the terminal, and only it belongs to it."""
    try:
        return await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            env={**os.environ, **plugin.variables(interactive=interactive)},
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if interactive else asyncio.subprocess.PIPE,
            start_new_session=not interactive,
        )
    except OSError as error:
        hint = f"\n{plugin.install_hint}" if plugin.install_hint else ""
        raise PluginError(f"exec plugin {plugin.command} cannot be run: {error.strerror}{hint}") from error


async def _answer(plugin: ExecPlugin, process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None  # noqa: S101 - started with a pipe
    output = bytearray()
    while chunk := await process.stdout.read(_CHUNK):
        output += chunk
        if len(output) > OUTPUT_LIMIT:
            raise PluginError(f"exec plugin {plugin.command} answers with more than {OUTPUT_LIMIT} bytes")
    return bytes(output)


async def _complaint(process: asyncio.subprocess.Process) -> str:
    """Return the end of what it told a person, in one line."""
    if process.stderr is None:
        return ""
    said = b""
    while chunk := await process.stderr.read(_CHUNK):
        said = (said + chunk)[-_COMPLAINT_BYTES:]
    return " ".join("".join(c if c.isprintable() else " " for c in said.decode(errors="replace")).split())


async def _end(process: asyncio.subprocess.Process, *, alone: bool) -> None:
    """Leave nothing of it behind; one that has a session of its own goes with whatever it started."""
    if alone:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    elif process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    await process.wait()


class PluginCredentials:
    """What a plugin answered last, for all clients of one kubeconfig.

    Args:
        plugin: Which.
        run: Runs it.
        now: Tells the time.
    """

    def __init__(
        self,
        plugin: ExecPlugin,
        run: Run = run_plugin,
        now: Callable[[], dt.datetime] = _utc_now,
    ) -> None:
        self._plugin = plugin
        self._run = run
        self._now = now
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None
        self._contexts: list[ssl.SSLContext] = []

    def present_in(self, context: ssl.SSLContext) -> None:
        """Let connections of this context present the certificate, if the plugin gives one."""
        self._contexts.append(context)

    async def current(self) -> Credential:
        """Return a credential that is not known to be over.

        Raises:
            PluginError: There is none to be had.
        """
        async with self._lock:
            if self._credential is None or self._credential.is_over(self._now()):
                return await self._ask()
            return self._credential

    async def instead_of(self, refused: Credential) -> Credential:
        """Return another one than what the API server refused.

        Raises:
            PluginError: There is none to be had.
        """
        async with self._lock:
            if self._credential is not None and self._credential is not refused:
                return self._credential
            return await self._ask()

    async def _ask(self) -> Credential:
        credential = parse_credential(self._plugin, await self._run(self._plugin))
        for context in self._contexts if credential.certificate else ():
            self._present(context, credential.certificate)
        self._credential = credential
        return credential

    def _present(self, context: ssl.SSLContext, certificate: str) -> None:
        # The ssl module reads certificates from files alone; only we can read this one, for as long as it is there.
        with NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(certificate)
            file.flush()
            try:
                context.load_cert_chain(file.name)
            except (ssl.SSLError, ValueError) as error:
                raise PluginError(
                    f"the answer of exec plugin {self._plugin.command} has a certificate that cannot be used"
                ) from error


class ExecAuth(httpx2.Auth):
    """Sends a plugin's token, and asks the plugin once more after a refusal."""

    def __init__(self, credentials: PluginCredentials) -> None:
        self._credentials = credentials

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """See `httpx2.Auth`; the certificate, if there is one, is presented by a connection that is made after this."""
        credential = await self._credentials.current()
        _show(request, credential)
        response = yield request
        if response.status_code != httpx2.codes.UNAUTHORIZED:
            return
        _show(request, await self._credentials.instead_of(credential))
        yield request


def _show(request: httpx2.Request, credential: Credential) -> None:
    if credential.token:
        request.headers["Authorization"] = f"Bearer {credential.token}"

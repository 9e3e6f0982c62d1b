"""Serves the engine's language protocol for programs in this checkout's own environment.

The SDK has the whole of it for inline programs; what is added here is what the engine asks before it runs a program
that lies in a directory. Dependencies are this checkout's affair, so those questions have empty answers.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # ships no annotations, and no stubs are locked
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2, language_pb2_grpc

from tools.language_host.plugins import PluginProcess, Said

_WORKERS = 4
# A stack's whole configuration and every message about it has to fit.
_LARGEST_MESSAGE = 400 * 1024 * 1024


class LocalProgramServer(LanguageServer):
    """Runs the program that a request names."""

    def __init__(self) -> None:
        super().__init__(lambda: None)

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802  # the protocol's signature
        """Say that the server is there."""
        return language_pb2.LanguageHandshakeResponse()

    def InstallDependencies(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: ARG002, N802  # see above
        """Install nothing."""
        yield language_pb2.InstallDependenciesResponse()

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802  # see above
        """List nothing."""
        return language_pb2.GetProgramDependenciesResponse()

    def RuntimeOptionsPrompts(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802  # see above
        """Ask for nothing."""
        return language_pb2.RuntimeOptionsResponse()

    def Run(self, request: Any, context: Any) -> Any:  # noqa: N802  # the protocol's signature
        """Run the program's `__main__.py` in its directory."""
        directory = Path(request.info.program_directory)
        os.chdir(directory)
        if str(directory) not in sys.path:
            sys.path.insert(0, str(directory))
        self.program = lambda: _run(directory)
        return super().Run(request, context)  # type: ignore[no-untyped-call]  # the SDK leaves it unannotated

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802  # the protocol's signature
        """Run a plug-in that lies in a directory, and pass on what it writes until it ends, or nobody listens."""
        plugin = PluginProcess(
            Path(request.info.program_directory), request.args, dict(_variables(request.env)), Path(request.pwd)
        )
        if not context.add_callback(plugin.end):
            plugin.end()
        for said in plugin.output():
            yield _response(said)
        yield language_pb2.RunPluginResponse(exitcode=plugin.exit_code())


def _response(said: Said) -> Any:
    if said.stream == "stderr":
        return language_pb2.RunPluginResponse(stderr=said.content)
    return language_pb2.RunPluginResponse(stdout=said.content)


def _variables(assignments: Iterable[str]) -> Iterator[tuple[str, str]]:
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        yield name, value


def _run(directory: Path) -> None:
    runpy.run_path(str(directory / "__main__.py"), run_name="__main__")


def serve() -> None:
    """Serve on a free port of 127.0.0.1, print the port as the engine expects, and return when interrupted."""
    options = [("grpc.max_receive_message_length", _LARGEST_MESSAGE)]
    server = grpc.server(ThreadPoolExecutor(max_workers=_WORKERS), options=options)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(LocalProgramServer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    # The engine interrupts its language hosts when it is done with them; a shell may have had that ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(port, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.wait_for_termination()

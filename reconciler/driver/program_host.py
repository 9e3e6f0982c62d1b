"""The private seam to the Pulumi SDK: serves an inline program and takes the event stream, over one gRPC server.

The only module that imports from private parts of the SDK (`automation._server`, the generated stubs), so the SDK
is pinned exactly and `SUPPORTED_SDK` is checked against what is installed before anything else runs. It is imported
in worker processes alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc  # type: ignore[import-untyped]  # ships no annotations, and no stubs are locked
from google.protobuf import empty_pb2  # type: ignore[import-untyped]  # as above
from pulumi.automation._server import LanguageServer
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import events_pb2_grpc, language_pb2_grpc

from reconciler.driver.events import EngineReport, EventCollector
from reconciler.driver.operation import Program

_SERVER_THREADS = 4
_STREAM_END_SECONDS = 2.0


class _EventsService(events_pb2_grpc.EventsServicer):
    """Takes the engine's event stream; the engine waits for the reply, so every event has arrived when it exits."""

    def __init__(self) -> None:
        self._collector = EventCollector()
        self._lock = threading.Lock()

    def StreamEvents(self, request_iterator: Iterator[Any], context: object) -> empty_pb2.Empty:  # noqa: N802, ARG002 -- gRPC's names
        for request in request_iterator:
            with self._lock:
                self._collector.add(request.event)
        return empty_pb2.Empty()

    def report(self) -> EngineReport:
        with self._lock:
            return self._collector.report()


class ProgramHost:
    """Serves one program to one CLI process."""

    def __init__(self, program: Program) -> None:
        self._server = grpc.server(ThreadPoolExecutor(_SERVER_THREADS), options=_GRPC_CHANNEL_OPTIONS)
        self._events = _EventsService()
        events_pb2_grpc.add_EventsServicer_to_server(self._events, self._server)
        language_pb2_grpc.add_LanguageRuntimeServicer_to_server(LanguageServer(program), self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def close(self) -> EngineReport:
        """Stop serving and say what the event stream held."""
        self._server.stop(grace=_STREAM_END_SECONDS).wait()
        return self._events.report()


def empty_program() -> None:
    """Declare nothing: what a destroy or a refresh is given, so that the engine needs no language host."""

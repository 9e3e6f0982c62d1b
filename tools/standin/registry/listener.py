"""A small HTTP/1.1 server on a thread: what the registry's hosts and its control port have in common."""

import socket
import ssl
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

IDLE_SECONDS = 60.0
"""After this long without a request a connection is closed."""

Handler = Callable[..., BaseHTTPRequestHandler]
"""Makes the object that serves one connection; called as socketserver calls a handler class."""


class Listener:
    """Holds one address: the port is bound from construction, requests are served from `serve` to `stop`."""

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext | None = None) -> None:
        self._server = _Server(address, BaseHTTPRequestHandler)
        if tls is not None:
            # The handshake is left to the connection's own thread: a client that never finishes it blocks nobody.
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def port(self) -> int:
        """The port bound, which the system chose if 0 was asked for."""
        return int(self._server.server_address[1])

    def serve(self, handler: Handler) -> None:
        """Begin to answer; clients that connected before have been waiting in the backlog."""
        self._server.handler = handler
        self._thread.start()

    def stop(self) -> None:
        """Stop accepting and free the port; replies under way are abandoned."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    handler: Handler

    def finish_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        self.handler(request, client_address, self)

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        # A client that goes away, or does not trust the certificate, is no fault of the server.
        if not isinstance(sys.exception(), ConnectionError | ssl.SSLError):
            super().handle_error(request, client_address)

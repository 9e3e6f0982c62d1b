"""The registry's two hosts on the wire: sends what `site` decided, disturbances included."""

import re
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

from tools.standin.registry.failures import Cut, Stall
from tools.standin.registry.listener import IDLE_SECONDS
from tools.standin.registry.ranges import Span
from tools.standin.registry.replies import Reply
from tools.standin.registry.site import Host, Site

_SLICE = 1 << 20
_ORIGIN = re.compile(r"\Ahttps?://[^/]*", re.IGNORECASE)
"""What whoever goes through a proxy puts in front of the path (RFC 9112, section 3.2.2)."""


class HostHandler(BaseHTTPRequestHandler):
    """Serves one connection to one host of a site."""

    protocol_version = "HTTP/1.1"
    server_version = "standin-registry"
    sys_version = ""
    timeout = IDLE_SECONDS

    def __init__(self, site: Site, host: Host, stopping: threading.Event, *connection: Any) -> None:
        """Serve the connection to its end; `stopping` ends stalled transfers early."""
        self._site = site
        self._host = host
        self._stopping = stopping
        super().__init__(*connection)

    def do_GET(self) -> None:
        """Answer with headers and body."""
        reply, span = self._reply()
        try:
            self._send(reply, span)
        except ConnectionError:
            # The client has what it wanted, or was stopped: nobody is left to tell.
            self.close_connection = True

    def do_HEAD(self) -> None:
        """Answer with headers only."""
        reply, span = self._reply()
        self._send_head(reply, span)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Print nothing: the site remembers every request."""

    def _reply(self) -> tuple[Reply, Span]:
        path = _ORIGIN.sub("", self.path)
        return self._site.answer(self._host, self.command, path, tuple(self.headers.items()))

    def _send_head(self, reply: Reply, span: Span) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(span.stop - span.start))
        self.end_headers()

    def _send(self, reply: Reply, span: Span) -> None:
        self._send_head(reply, span)
        match reply.disturbance:
            case None:
                self._send_body(reply, span)
            case Cut(after_bytes):
                self._send_body(reply, Span(span.start, min(span.start + after_bytes, span.stop)))
                self.close_connection = True
            case Stall(after_bytes, seconds):
                pause = min(span.start + after_bytes, span.stop)
                self._send_body(reply, Span(span.start, pause))
                self._stopping.wait(seconds)
                self._send_body(reply, Span(pause, span.stop))

    def _send_body(self, reply: Reply, span: Span) -> None:
        for start in range(span.start, span.stop, _SLICE):
            self.wfile.write(reply.content.read(start, min(start + _SLICE, span.stop)))

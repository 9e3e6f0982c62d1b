"""The control API: the registry's method calls over HTTP, so that tests outside a cluster drive the registry inside it.

    GET    /requests                        every request so far, with headers
    DELETE /requests                        forget them
    GET    /tags                            what each tag resolves to
    PUT    /tags/<namespace>/<model>/<tag>  {"target": "laya:en-better"}: answer with that tag's manifest
    DELETE /tags/<namespace>/<model>/<tag>  answer 404
    PUT    /switches                        a list of switches, each as
        {"path": "/blobs/*", "times": 2, "failure": {"kind": "status", "status": 503}}

Replies are JSON: 200 with a document, 204 with nothing, 400 or 404 with `{"error": "…"}`.
"""

import json
import re
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler
from typing import Any

from tools.standin.registry.failures import switch_from_json
from tools.standin.registry.listener import IDLE_SECONDS
from tools.standin.registry.names import TagName
from tools.standin.registry.site import Site, UnknownTagError

MAX_BODY_BYTES = 1024 * 1024

_TAG = re.compile(r"/tags/([^/]+)/([^/]+)/([^/]+)")


def control_answer(site: Site, method: str, path: str, body: bytes) -> tuple[int, Any]:
    """Carry out one call.

    Returns:
        The status, and the document to answer with, None for no body.
    """
    try:
        return _carried_out(site, method, path, body)
    except UnknownTagError as error:
        return 404, {"error": str(error)}
    except ValueError as error:
        return 400, {"error": str(error)}


def _carried_out(site: Site, method: str, path: str, body: bytes) -> tuple[int, Any]:
    match method, path:
        case "GET", "/requests":
            return 200, [asdict(request) for request in site.requests()]
        case "DELETE", "/requests":
            site.forget_requests()
        case "GET", "/tags":
            return 200, {str(name): digest for name, digest in site.digests().items()}
        case "PUT", "/switches":
            site.set_switches(_switches(body))
        case _:
            return _tag_carried_out(site, method, path, body)
    return 204, None


def _tag_carried_out(site: Site, method: str, path: str, body: bytes) -> tuple[int, Any]:
    named = _TAG.fullmatch(path)
    if named is None:
        return 404, {"error": f"the control API has no {method} {path}"}
    name = TagName(*named.groups())
    match method:
        case "PUT":
            site.move_tag(name, _target(body))
        case "DELETE":
            site.delete_tag(name)
        case _:
            return 404, {"error": f"a tag is only put or deleted: {method} {path}"}
    return 204, None


def _target(body: bytes) -> TagName:
    match json.loads(body):
        case {"target": str(target)}:
            return TagName.parse(target)
    raise ValueError('expected {"target": "[namespace/]model[:tag]"}')


def _switches(body: bytes) -> list[Any]:
    documents = json.loads(body)
    if not isinstance(documents, list):
        raise ValueError("expected a list of switches")  # noqa: TRY004 - it is the caller's JSON that is wrong
    return [switch_from_json(document) for document in documents]


class ControlHandler(BaseHTTPRequestHandler):
    """Serves one connection to the control port."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS

    def __init__(self, site: Site, *connection: Any) -> None:
        """Serve the connection to its end."""
        self._site = site
        super().__init__(*connection)

    def do_GET(self) -> None:
        """Answer a call."""
        self._answer()

    def do_PUT(self) -> None:
        """Answer a call."""
        self._answer()

    def do_DELETE(self) -> None:
        """Answer a call."""
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Print nothing: whoever calls knows what it asked for."""

    def _answer(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self._send(400, {"error": f"the body needs a Content-Length of at most {MAX_BODY_BYTES}"})
            return
        self._send(*control_answer(self._site, self.command, self.path, self.rfile.read(int(length))))

    def _send(self, status: int, document: Any) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        if document is not None:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

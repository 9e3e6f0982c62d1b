"""The client that keeps asking: how it counts outages, and how it follows the rotation of a key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from urllib.parse import SplitResult, urlsplit

import pytest

from tools.standin.client import RefusedError, ask_with_newest, keep_asking

BILLING = {"models": [{"name": "laya:en"}], "answers": {"department": {"choice": "billing"}}}


class Keyed(HTTPServer):
    """Answers whoever has the key that counts at the moment."""

    key = "first"

    @property
    def address(self) -> SplitResult:
        return urlsplit(f"http://127.0.0.1:{self.server_port}/v1/systemone")


class Answering(BaseHTTPRequestHandler):
    server: Keyed

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        counts = self.headers["Authorization"] == f"Bearer {self.server.key}"
        self.send_response(200 if counts else 401)
        self.end_headers()
        self.wfile.write(json.dumps(BILLING).encode())

    do_POST = do_GET  # noqa: N815 - named by the standard library

    def log_message(self, *_: object) -> None:
        """Keep the test's output free of requests."""


@pytest.fixture
def runtime() -> Iterator[Keyed]:
    with Keyed(("127.0.0.1", 0), Answering) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_requests_without_an_answer_are_one_outage_until_there_is_an_answer() -> None:
    outcomes = iter(["", "billing", "", "", "billing", "billing", ""])
    asked: list[str] = []

    def ask_once() -> str:
        asked.append(next(outcomes))
        if not asked[-1]:
            raise ConnectionRefusedError("nobody listens")
        return asked[-1]

    tally = keep_asking(ask_once, 0, lambda: len(asked) == 7, lambda _: None)
    assert (tally.asked, tally.failed, tally.outages) == (7, 4, 3)


def test_a_key_is_used_until_it_is_refused_and_never_again(runtime: Keyed) -> None:
    keys = ["first", "second"]
    assert ask_with_newest(runtime.address, keys, 5) == "billing"
    assert keys == ["first", "second"]
    runtime.key = "second"
    assert ask_with_newest(runtime.address, keys, 5) == "billing"
    runtime.key = "first"
    with pytest.raises(RefusedError):
        ask_with_newest(runtime.address, keys, 5)

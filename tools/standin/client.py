"""A client that keeps asking: one request every few milliseconds, each on a connection of its own.

It runs as a Pod and shows whether a rollout is noticed by those who ask. Standard library only, because it shares the
stand-ins' image. Once a second it prints a JSON line with everything counted so far; the last line is the verdict:

    {"asked": 1200, "failed": 0, "outages": 0, "choices": {"billing": 1200}, "slowest_ms": 41, "errors": []}
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import sys
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

QUESTION = {
    "state": "I was charged twice for my subscription this month. Please refund the second charge.",
    "questions": {
        "department": {
            "type": "choice",
            "criteria": {
                "billing": "billing, payments, charges, refunds",
                "technical": "technical bugs and errors",
                "sales": "pricing and plans",
                "other": "anything else",
            },
        }
    },
}
REMEMBERED_ERRORS = 20


class RefusedError(ValueError):
    """The runtime wants another key."""


@dataclass
class Tally:
    """What the client has seen so far."""

    asked: int = 0
    failed: int = 0
    outages: int = 0
    """Unbroken runs of requests without an answer."""
    choices: Counter[str] = field(default_factory=Counter)
    slowest_ms: int = 0
    errors: list[str] = field(default_factory=list)
    in_outage: bool = False

    def answered(self, choice: str, seconds: float) -> None:
        """Count an answer."""
        self.in_outage = False
        self.asked += 1
        self.choices[choice] += 1
        self.slowest_ms = max(self.slowest_ms, round(seconds * 1000))

    def broke(self, error: str) -> None:
        """Count a request without an answer and remember the first few reasons, at times as Kubernetes writes them."""
        self.outages += not self.in_outage
        self.in_outage = True
        self.asked += 1
        self.failed += 1
        if len(self.errors) < REMEMBERED_ERRORS:
            self.errors.append(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {error}")

    def line(self) -> str:
        """Return everything as one JSON line."""
        return json.dumps(
            {
                "asked": self.asked,
                "failed": self.failed,
                "outages": self.outages,
                "choices": dict(self.choices),
                "slowest_ms": self.slowest_ms,
                "errors": self.errors,
            }
        )


def ask(address: urllib.parse.SplitResult, timeout: float, key: str = "") -> str:
    """Ask the quickstart's question once, on a new connection, and return the chosen department.

    The runtime answers only for the model it serves, and a promotion changes which one that is. So the client first
    asks which model is there; both requests travel on one connection and so reach the same Pod.

    Raises:
        OSError: no connection, or it broke.
        RefusedError: the key does not count.
        ValueError: the answer is no answer.
        http.client.HTTPException: the answer is no HTTP.
    """
    connection = http.client.HTTPConnection(address.hostname or "", address.port or 80, timeout=timeout)
    try:
        model = _exchange(connection, "GET", "/v1/models", key)["models"][0]["name"]
        answer = _exchange(connection, "POST", address.path, key, {"model": model, **QUESTION})
    finally:
        connection.close()
    return str(answer["answers"]["department"]["choice"])


def ask_with_newest(address: urllib.parse.SplitResult, keys: list[str], timeout: float) -> str:
    """Ask with the first key; once that is refused, forget it for the next one, as whoever is told of a rotation does.

    Raises:
        OSError: no connection, or it broke.
        ValueError: the answer is no answer, or the last key does not count either.
        http.client.HTTPException: the answer is no HTTP.
    """
    while len(keys) > 1:
        try:
            return ask(address, timeout, keys[0])
        except RefusedError:
            del keys[0]
    return ask(address, timeout, keys[0])


def _exchange(connection: http.client.HTTPConnection, method: str, path: str, key: str, body: object = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    authorization = {"Authorization": f"Bearer {key}"} if key else {}
    connection.request(method, path, content, {"Content-Type": "application/json", **authorization})
    response = connection.getresponse()
    answer = response.read()
    if response.status == http.HTTPStatus.UNAUTHORIZED:
        raise RefusedError(f"{method} {path}: the key is refused")
    if response.status != http.HTTPStatus.OK:
        raise ValueError(f"{method} {path}: status {response.status}: {answer[:200]!r}")
    return json.loads(answer)


def keep_asking(
    ask_once: Callable[[], str], every: float, stopped: Callable[[], bool], report: Callable[[str], None]
) -> Tally:
    """Ask until `stopped`, one request at a time, starting one every `every` seconds where answers allow it."""
    tally = Tally()
    reported = time.monotonic()
    while not stopped():
        started = time.monotonic()
        try:
            tally.answered(ask_once(), time.monotonic() - started)
        except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException) as error:
            tally.broke(f"{type(error).__name__}: {error}")
        if time.monotonic() - reported >= 1:
            reported = time.monotonic()
            report(tally.line())
        time.sleep(max(0.0, every - (time.monotonic() - started)))
    report(tally.line())
    return tally


def main() -> int:
    """Run until SIGTERM or SIGINT; the exit code says whether every request was answered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="where to ask, e.g. http://support-router.default.svc:11435/v1/systemone")
    parser.add_argument("--every", type=float, default=0.05, metavar="SECONDS", help="pause between starts (0.05)")
    parser.add_argument("--timeout", type=float, default=5.0, metavar="SECONDS", help="per request (5)")
    key_help = "environment variable with an API key; given again, with the one to use once that is refused"
    parser.add_argument("--key-from", action="append", default=[], metavar="VARIABLE", help=key_help)
    arguments = parser.parse_args()
    received: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signum, _frame: received.append(signum))
    keys = [os.environ[variable] for variable in arguments.key_from] or [""]
    ask_once = partial(ask_with_newest, urllib.parse.urlsplit(arguments.url), keys, arguments.timeout)
    tally = keep_asking(ask_once, arguments.every, lambda: bool(received), lambda line: print(line, flush=True))
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())

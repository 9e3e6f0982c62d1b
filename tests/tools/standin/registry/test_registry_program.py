"""The stand-in registry as a program: driven through its control API, stopped by a signal."""

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.fakes.ports import free_port


@dataclass(frozen=True)
class Program:
    process: subprocess.Popen[str]
    registry: int
    weights: int
    control: int

    def call(self, method: str, path: str, document: Any = None, *, port: int | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port or self.control, timeout=5)
        try:
            body = None if document is None else json.dumps(document)
            connection.request(method, path, body)
            response = connection.getresponse()
            text = response.read()
            is_json = response.headers.get_content_type() == "application/json"
            return response.status, json.loads(text) if is_json and text else text
        finally:
            connection.close()


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    registry, weights, control = free_port(), free_port(), free_port()
    arguments = [
        *("--listen", f"127.0.0.1:{registry}", "--weights-listen", f"127.0.0.1:{weights}"),
        *("--control-listen", f"127.0.0.1:{control}", "--base-url", "http://registry.test:8080/"),
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "tools.standin.registry", *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "http://registry.test:8080," in process.stdout.readline()
        yield Program(process, registry, weights, control)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


@pytest.fixture(autouse=True)
def clean_slate(program: Program) -> None:
    program.call("PUT", "/switches", [])
    program.call("DELETE", "/requests")
    program.call("PUT", "/tags/library/laya/en", {"target": "laya:en"})


def manifest(program: Program, path: str = "library/laya/manifests/en") -> tuple[int, Any]:
    return program.call("GET", f"/v2/{path}", port=program.registry)


def test_it_serves_with_the_address_it_was_told(program: Program) -> None:
    status, data = manifest(program)
    assert status == 200
    assert json.loads(data)["config"]["urls"][0].startswith("http://registry.test:8080/blobs/")


def test_requests_can_be_read_and_forgotten(program: Program) -> None:
    manifest(program)
    status, requests = program.call("GET", "/requests")
    assert (status, [request["path"] for request in requests]) == (200, ["/v2/library/laya/manifests/en"])
    assert "Host" in dict(requests[0]["headers"])
    assert program.call("DELETE", "/requests")[0] == 204
    assert program.call("GET", "/requests") == (200, [])


def test_a_tag_can_be_moved_and_deleted(program: Program) -> None:
    tags = program.call("GET", "/tags")[1]
    assert program.call("PUT", "/tags/library/laya/en", {"target": "laya:en-worse"})[0] == 204
    assert program.call("GET", "/tags")[1]["library/laya:en"] == tags["library/laya:en-worse"]
    assert manifest(program) == manifest(program, "library/laya/manifests/en-worse")
    assert program.call("DELETE", "/tags/library/laya/en")[0] == 204
    assert manifest(program)[0] == 404


def test_switches_replace_those_before(program: Program) -> None:
    failing = {"path": "/v2/*", "times": None, "failure": {"kind": "status", "status": 503}}
    assert program.call("PUT", "/switches", [failing])[0] == 204
    assert [manifest(program)[0] for _ in range(2)] == [503, 503]
    assert program.call("PUT", "/switches", [])[0] == 204
    assert manifest(program)[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "document", "status"),
    [
        ("GET", "/nothing", None, 404),
        ("GET", "/tags/library/laya/en", None, 404),
        ("PUT", "/tags/library/laya/en", {"target": "laya:none"}, 404),
        ("DELETE", "/tags/library/laya/none", None, 404),
        ("PUT", "/tags/library/laya/en", {"target": 1}, 400),
        ("PUT", "/tags/library/laya/en", None, 400),
        ("PUT", "/switches", {}, 400),
        ("PUT", "/switches", [{"path": "/x"}], 400),
    ],
)
def test_other_calls_are_refused_with_a_reason(
    program: Program, method: str, path: str, document: Any, status: int
) -> None:
    answered, body = program.call(method, path, document)
    assert (answered, bool(body["error"])) == (status, True)


@pytest.mark.parametrize("length", ["2000000", "-1", "many"])
def test_a_body_of_unreasonable_length_is_not_read(program: Program, length: str) -> None:
    with socket.create_connection(("127.0.0.1", program.control), timeout=5) as connection:
        connection.sendall(f"PUT /switches HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
        assert b" 400 " in connection.recv(1000).splitlines()[0]


@pytest.mark.parametrize("arguments", [["--listen", "8080"], ["--base-url", "registry.test"]])
def test_arguments_that_make_no_sense_are_refused(arguments: list[str]) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "tools.standin.registry", *arguments], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 2
    assert arguments[0] in finished.stderr

"""The pull client against a scripted registry: ranges, resume, retries, hashes, moved tags, tokens (spec section 5)."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.tools.standin.runtime.conftest import (
    PREFIX,
    Answer,
    Model,
    Registry,
    StartDaemon,
    StoreDirectory,
    call,
    cut_after,
    onnx,
    reply,
    router,
    sha256,
    wait_for,
)
from tools.standin.runtime.daemon import Daemon
from tools.standin.runtime.download import ONE_STREAM_BYTES, Part, plan_parts, resumed_parts
from tools.standin.runtime.fetch import authorized_url
from tools.standin.runtime.settings import HuggingFaceAccess

LARGE = bytes(ONE_STREAM_BYTES + 1)
FAST = {"OLLAYA_STANDIN_BACKOFF_SCALE": "0.02"}


@pytest.fixture
def daemon(start: StartDaemon, registry: Registry) -> Daemon:
    return start(OLLAYA_REGISTRY=registry.url, **FAST)


def pull(daemon: Daemon, model: str = "laya:en", **fields: Any) -> Answer:
    return call(f"{daemon.base_url}/api/pull", {"model": model, **fields})


def host_directory(registry: Registry) -> str:
    return registry.url.removeprefix("http://").replace(":", "_")


def manifest_file(store: StoreDirectory, registry: Registry, name: str = "laya:en") -> Path:
    return store.manifest(name, host_directory(registry))


def blob_path(model: Model, kind: str) -> str:
    digest = next(layer["digest"] for layer in model.layers if layer["mediaType"] == PREFIX + kind)
    return f"/blobs/{digest.replace(':', '-')}"


def with_weights(content: bytes) -> Model:
    return onnx().add("weights", content)


def test_a_pull_writes_the_exact_manifest_last(store: StoreDirectory, registry: Registry, daemon: Daemon) -> None:
    model = registry.publish("laya:en", onnx())
    answer = pull(daemon)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
    statuses = [line["status"] for line in answer.lines]
    assert statuses[0] == "pulling manifest"
    assert statuses[-3:] == ["verifying sha256 digest", "writing manifest", "success"]
    first = answer.lines[1]
    assert (first["completed"], first["status"]) == (0, f"pulling {first['digest'][7:19]}")
    assert manifest_file(store, registry).read_bytes() == model.manifest
    assert {path.name for path in (store.root / "blobs").iterdir()} == {
        digest.replace(":", "-") for digest in model.blobs
    }
    call(f"{daemon.base_url}/api/decide", {"model": "laya:en", "keep_alive": -1})
    assert call(f"{daemon.base_url}/api/ps").json["models"][0]["digest"] == model.digest


def test_present_blobs_are_not_fetched_again_and_the_manifest_always_is(registry: Registry, daemon: Daemon) -> None:
    registry.publish("laya:en", onnx())
    pull(daemon)
    registry.requests.clear()
    assert pull(daemon, stream=False).json == {"status": "success"}
    assert registry.paths() == ["/v2/library/laya/manifests/en"]


def test_a_moved_tag_overwrites_the_manifest(store: StoreDirectory, registry: Registry, daemon: Daemon) -> None:
    registry.publish("laya:en", onnx())
    pull(daemon)
    moved = registry.publish("laya:en", onnx({"sharpness": 3}))
    pull(daemon)
    assert sha256(manifest_file(store, registry).read_bytes()) == moved.digest


def test_blobs_without_urls_come_from_the_registry(registry: Registry, daemon: Daemon) -> None:
    registry.publish("laya:en", onnx(), with_urls=False)
    assert pull(daemon, stream=False).status == 200
    assert any(path.startswith("/v2/library/laya/blobs/sha256:") for path in registry.paths())


def test_requests_name_the_client_and_carry_no_key(registry: Registry, start: StartDaemon) -> None:
    daemon = start(OLLAYA_REGISTRY=registry.url, OLLAYA_HF_TOKEN="hf", HF_TOKEN="up", OLLAYA_STANDIN_VERSION="0.11.0")
    registry.publish("laya:en", onnx())
    pull(daemon)
    assert {headers["user-agent"] for _, headers in registry.requests} == {"ollaya/0.11.0"}
    assert not [path for path, headers in registry.requests if "authorization" in headers]


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (reply(404), 404, "MODEL_NOT_FOUND"),
        (reply(401), 502, "REGISTRY_ERROR"),
        (reply(500), 502, "REGISTRY_ERROR"),
        (reply(200, b"<html>"), 502, "REGISTRY_ERROR"),
        (reply(200, b"[]"), 502, "REGISTRY_ERROR"),
        (reply(200, b'{"schemaVersion": 1}'), 502, "REGISTRY_ERROR"),
        (reply(200, b'{"schemaVersion": 2, "mediaType": "x", "config": {"digest": "md5:1"}, "layers": []}'), 502, None),
        (reply(200, b" " * 5_000_000), 502, "REGISTRY_ERROR"),
        (cut_after(10), 502, "REGISTRY_ERROR"),
    ],
)
def test_a_manifest_is_asked_for_once_and_its_failure_is_a_status(
    registry: Registry,
    daemon: Daemon,
    answer: Callable[[BaseHTTPRequestHandler, bytes], None],
    status: int,
    code: str | None,
) -> None:
    registry.publish("laya:en", onnx())
    registry.script("/v2/library/laya/manifests/en", answer)
    failed = pull(daemon)
    assert failed.status == status
    assert failed.code == (code or "REGISTRY_ERROR")
    assert len(registry.requests) == 1


def test_an_unknown_tag_is_told_with_the_registry(registry: Registry, daemon: Daemon) -> None:
    host = registry.url.removeprefix("http://")
    assert pull(daemon).json["error"] == f'model "laya:en" not found in registry {host}'


def test_a_closed_registry_port(start: StartDaemon) -> None:
    failed = pull(start(OLLAYA_REGISTRY="http://127.0.0.1:1"))
    assert (failed.status, failed.code) == (502, "REGISTRY_ERROR")
    assert "error sending request for url (http://127.0.0.1:1/v2/library/laya/manifests/en)" in failed.json["error"]


def test_a_corrupt_blob_leaves_nothing(store: StoreDirectory, registry: Registry, daemon: Daemon) -> None:
    model = registry.publish("laya:en", with_weights(b"right"))
    registry.script(blob_path(model, "weights"), reply(200, b"wrong"))
    last = pull(daemon).lines[-1]
    assert last["code"] == "DIGEST_MISMATCH"
    assert "does not match its digest" in last["error"]
    assert not manifest_file(store, registry).exists()
    assert not list((store.root / "blobs").glob("*-partial"))
    assert pull(daemon).lines[-1]["status"] == "success"


@pytest.mark.parametrize("answer", [reply(200, b"shor"), reply(200, b"too long"), reply(404), reply(403)])
def test_wrong_length_and_client_errors_are_final(
    registry: Registry, daemon: Daemon, answer: Callable[[BaseHTTPRequestHandler, bytes], None]
) -> None:
    model = registry.publish("laya:en", with_weights(b"right"))
    path = blob_path(model, "weights")
    registry.script(path, answer)
    assert pull(daemon).lines[-1]["code"] == "REGISTRY_ERROR"
    assert registry.paths().count(path) == 1


def stall(handler: BaseHTTPRequestHandler, stored: bytes) -> None:
    time.sleep(1.5)
    handler.close_connection = True


@pytest.mark.parametrize("failure", [reply(503), cut_after(2), stall])
def test_passing_failures_are_retried(
    registry: Registry, daemon: Daemon, failure: Callable[[BaseHTTPRequestHandler, bytes], None]
) -> None:
    model = registry.publish("laya:en", with_weights(b"right"))
    registry.script(blob_path(model, "weights"), failure, reply(500))
    assert pull(daemon).lines[-1]["status"] == "success"
    assert registry.paths().count(blob_path(model, "weights")) == 3


def test_retries_end_after_six(registry: Registry, start: StartDaemon) -> None:
    daemon = start(OLLAYA_REGISTRY=registry.url, OLLAYA_STANDIN_BACKOFF_SCALE="0.002")
    model = registry.publish("laya:en", with_weights(b"right"))
    registry.script(blob_path(model, "weights"), *[reply(503)] * 9)
    assert pull(daemon).lines[-1]["code"] == "REGISTRY_ERROR"
    assert registry.paths().count(blob_path(model, "weights")) == 7


def test_a_url_of_another_scheme_is_refused_at_once(registry: Registry, daemon: Daemon, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"right")
    model = with_weights(b"right")
    model.layers[-1]["urls"] = [secret.as_uri()]
    registry.publish("laya:en", model)
    assert pull(daemon).lines[-1]["code"] == "REGISTRY_ERROR"


def test_large_blobs_come_in_ranges(registry: Registry, daemon: Daemon, store: StoreDirectory) -> None:
    model = registry.publish("laya:en", with_weights(LARGE))
    assert pull(daemon).lines[-1]["status"] == "success"
    ranges = [headers.get("range") for path, headers in registry.requests if path == blob_path(model, "weights")]
    assert ranges == [f"bytes=0-{len(LARGE) - 1}"]
    assert not list((store.root / "blobs").glob("*-partial*"))


def test_a_cut_range_goes_on_where_it_stopped(registry: Registry, daemon: Daemon) -> None:
    model = registry.publish("laya:en", with_weights(LARGE))
    path, cut = blob_path(model, "weights"), 1_000_000

    def send(handler: BaseHTTPRequestHandler, stored: bytes) -> None:
        reply(206, stored[:cut], {"Content-Length": str(len(stored))})(handler, stored)
        handler.close_connection = True

    registry.script(path, send)
    assert pull(daemon).lines[-1]["status"] == "success"
    ranges = [headers["range"] for asked, headers in registry.requests if asked == path]
    assert ranges[1] == f"bytes={cut}-{len(LARGE) - 1}"


def test_a_saved_plan_is_resumed(registry: Registry, daemon: Daemon, store: StoreDirectory) -> None:
    model = registry.publish("laya:en", with_weights(LARGE))
    digest = model.layers[-1]["digest"].replace(":", "-")
    blobs = store.root / "blobs"
    (blobs / f"{digest}-partial").write_bytes(LARGE)
    plan = [{"offset": 0, "size": len(LARGE), "completed": len(LARGE) - 5}]
    (blobs / f"{digest}-partial.json").write_text(json.dumps(plan))
    assert pull(daemon).lines[-1]["status"] == "success"
    ranges = [headers["range"] for asked, headers in registry.requests if asked == blob_path(model, "weights")]
    assert ranges == [f"bytes={len(LARGE) - 5}-{len(LARGE) - 1}"]


@pytest.mark.parametrize(("version", "outcome"), [("0.12.0", "DIGEST_MISMATCH"), ("0.13.0", "success")])
def test_ignored_ranges_fall_back_in_the_newest_version_only(
    registry: Registry, start: StartDaemon, version: str, outcome: str
) -> None:
    daemon = start(OLLAYA_REGISTRY=registry.url, OLLAYA_STANDIN_VERSION=version)
    model = registry.publish("laya:en", with_weights(LARGE))
    registry.script(blob_path(model, "weights"), reply(200), reply(200))
    last = pull(daemon).lines[-1]
    assert outcome in {last.get("status"), last.get("code")}


def test_the_plan_of_parts() -> None:
    mebibyte = 1024 * 1024
    assert len(plan_parts(64 * mebibyte)) == 1
    assert len(plan_parts(64 * mebibyte + 1)) == 2
    assert len(plan_parts(10**13)) == 16
    for size in (1, 64 * mebibyte + 1, 10**13):
        parts = plan_parts(size)
        assert resumed_parts(json.dumps([vars_of(part) for part in parts]), size) == parts


def vars_of(part: Part) -> dict[str, int]:
    return {"offset": part.offset, "size": part.size, "completed": part.completed}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '[{"offset": 0, "size": 9, "completed": 0}]',
        '[{"offset": 1, "size": 10, "completed": 0}]',
        '[{"offset": 0, "size": 10, "completed": 11}]',
    ],
)
def test_a_plan_that_does_not_fit_is_dropped(text: str) -> None:
    assert resumed_parts(text, 10) is None


def test_a_router_brings_its_targets(store: StoreDirectory, registry: Registry, daemon: Daemon) -> None:
    registry.publish("laya:latest", router(english="laya:en", multilingual="laya:multilingual"))
    for name in ("laya:en", "laya:multilingual"):
        registry.publish(name, onnx(family=name))
    assert pull(daemon, "laya").lines[-1]["status"] == "success"
    for name in ("laya:latest", "laya:en", "laya:multilingual"):
        assert manifest_file(store, registry, name).exists()


def test_an_unsupported_format_stops_before_anything_large(registry: Registry, daemon: Daemon) -> None:
    model = registry.publish("laya:en", Model(config={"model_format": "tarball"}).add("weights", b"large"))
    assert pull(daemon).lines[-1]["code"] == "UNSUPPORTED_MODEL"
    assert blob_path(model, "weights") not in registry.paths()


def test_two_clients_share_one_pull(registry: Registry, daemon: Daemon) -> None:
    model = registry.publish("laya:en", with_weights(b"right"))
    path, released = blob_path(model, "weights"), threading.Event()

    def wait(handler: BaseHTTPRequestHandler, stored: bytes) -> None:
        released.wait(5)
        reply(200)(handler, stored)

    registry.script(path, wait)
    results: list[Answer] = []
    clients = [threading.Thread(target=lambda: results.append(pull(daemon, stream=False))) for _ in range(2)]
    for client in clients:
        client.start()
    wait_for(lambda: path in registry.paths())
    released.set()
    for client in clients:
        client.join()
    assert [result.json for result in results] == [{"status": "success"}] * 2
    assert registry.paths().count(path) == 1


def test_a_pull_without_clients_stops_and_keeps_its_partial(
    store: StoreDirectory, registry: Registry, daemon: Daemon
) -> None:
    model = registry.publish("laya:en", with_weights(LARGE))
    path, started = blob_path(model, "weights"), threading.Event()

    def trickle(handler: BaseHTTPRequestHandler, stored: bytes) -> None:
        handler.send_response(206)
        handler.send_header("Content-Length", str(len(stored)))
        handler.end_headers()
        for _ in range(2000):
            handler.wfile.write(bytes(1000))
            started.set()
            time.sleep(0.005)

    registry.script(path, trickle)
    host, port = daemon.base_url.removeprefix("http://").split(":")
    body = b'{"model": "laya:en"}'
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"POST /api/pull HTTP/1.1\r\nHost: x.local\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        assert started.wait(5)
    wait_for(lambda: not daemon._pulls._jobs, 3)
    assert list((store.root / "blobs").glob("*-partial"))
    assert not manifest_file(store, registry).exists()


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (HuggingFaceAccess(), ("https://huggingface.co/a/b", None)),
        (HuggingFaceAccess(token="own"), ("https://huggingface.co/a/b", "own")),
        (HuggingFaceAccess(upstream_token="up"), ("https://huggingface.co/a/b", "up")),
        (HuggingFaceAccess("http://mirror/", "own", "up"), ("http://mirror/a/b", "own")),
        (HuggingFaceAccess("http://mirror", None, "up"), ("http://mirror/a/b", None)),
    ],
)
def test_who_gets_a_token(access: HuggingFaceAccess, expected: tuple[str, str | None]) -> None:
    assert authorized_url("https://huggingface.co/a/b", access) == expected
    assert authorized_url("https://huggingface.company/a", access) == ("https://huggingface.company/a", None)


def test_hugging_face_urls_go_to_the_mirror_with_its_own_token(registry: Registry, start: StartDaemon) -> None:
    mirror = {"OLLAYA_HF_ENDPOINT": registry.url, "OLLAYA_HF_TOKEN": "own"}
    daemon = start(OLLAYA_REGISTRY=registry.url, **mirror)
    model = with_weights(b"right")
    model.layers[-1]["urls"] = ["https://huggingface.co/me/repo/resolve/abc/model.safetensors"]
    registry.publish("laya:en", model)
    registry.files["/cdn"] = b"right"
    registry.script("/me/repo/resolve/abc/model.safetensors", reply(302, b"", {"Location": f"{registry.url}/cdn"}))
    assert pull(daemon).lines[-1]["status"] == "success"
    tokens = {path: headers.get("authorization") for path, headers in registry.requests}
    assert tokens["/me/repo/resolve/abc/model.safetensors"] == "Bearer own"
    assert {token for path, token in tokens.items() if path.startswith(("/v2", "/blobs"))} == {None}


def test_a_store_that_cannot_be_written(registry: Registry, daemon: Daemon, store: StoreDirectory) -> None:
    registry.publish("laya:en", onnx())
    manifests = store.root / "manifests"
    manifests.rmdir()
    manifests.write_text("in the way")
    last = pull(daemon).lines[-1]
    assert last["code"] == "REGISTRY_ERROR"

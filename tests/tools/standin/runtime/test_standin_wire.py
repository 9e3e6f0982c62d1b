"""The HTTP surface: routes, key, Host, Origin, sizes, ids, keep-alive, odd clients (spec sections 2.1 to 2.4)."""

from __future__ import annotations

import http.client
import re
import socket
import threading

import pytest

from tests.tools.standin.runtime.conftest import StartDaemon, StoreDirectory, call, onnx, router, wait_for
from tools.standin.runtime import http_server
from tools.standin.runtime.daemon import Daemon


@pytest.fixture
def daemon(store: StoreDirectory, start: StartDaemon) -> Daemon:
    store.put("laya:en", onnx(description="small", release_date="2026-09-01", license="Apache-2.0"))
    return start()


def endpoint(daemon: Daemon) -> tuple[str, int]:
    host, port = daemon.base_url.removeprefix("http://").split(":")
    return host, int(port)


def send_raw(daemon: Daemon, data: bytes) -> bytes:
    with socket.create_connection(endpoint(daemon), timeout=5) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_root_is_open_and_plain(start: StartDaemon, method: str) -> None:
    answer = call(f"{start(OLLAYA_API_KEY='s3cret').base_url}/", method=method)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-length"] == "17"
    assert answer.body == (b"Ollaya is running" if method == "GET" else b"")


@pytest.mark.parametrize("path", ["/api/version", "/api/ps", "/v1/models", "/nowhere", "/metrics"])
@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic s3cret", "s3cret", "Bearer"])
def test_everything_else_needs_the_key(start: StartDaemon, path: str, header: str | None) -> None:
    daemon = start(OLLAYA_API_KEY=" s3cret ")
    answer = call(f"{daemon.base_url}{path}", headers={"Authorization": header} if header else {})
    assert (answer.status, answer.code) == (401, "UNAUTHORIZED")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("header", ["Bearer s3cret", "bearer s3cret", "BEARER   s3cret  "])
def test_the_scheme_may_be_written_anyhow(start: StartDaemon, header: str) -> None:
    daemon = start(OLLAYA_API_KEY="s3cret")
    assert call(f"{daemon.base_url}/api/version", headers={"Authorization": header}).json == {"version": "0.12.0"}


def test_without_a_key_any_authorization_is_fine(daemon: Daemon) -> None:
    assert call(f"{daemon.base_url}/api/version", headers={"Authorization": "Bearer anything"}).status == 200


@pytest.mark.parametrize("path", ["/metrics", "/health", "/v2/", "/v2/library/laya/manifests/en", "/api/chat", "/api"])
def test_unknown_paths(daemon: Daemon, path: str) -> None:
    answer = call(f"{daemon.base_url}{path}")
    assert (answer.status, answer.code) == (404, "NOT_FOUND")
    assert ("/api/decide" in answer.json["error"]) == (path == "/api/chat")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [("GET", "/api/decide", "POST"), ("POST", "/api/ps", "GET, HEAD"), ("POST", "/api/delete", "DELETE")],
)
def test_wrong_methods_are_told_the_right_ones(daemon: Daemon, method: str, path: str, allow: str) -> None:
    answer = call(f"{daemon.base_url}{path}", method=method)
    assert (answer.status, answer.code, answer.headers["allow"]) == (405, "METHOD_NOT_ALLOWED", allow)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/api/push"), ("POST", "/api/blobs/sha256:0"), ("HEAD", "/api/blobs/sha256:0"), ("POST", "/api/create")],
)
def test_reserved_paths(daemon: Daemon, method: str, path: str) -> None:
    assert call(f"{daemon.base_url}{path}", method=method).status == 501


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_bodies_that_are_no_json_object(daemon: Daemon, body: bytes) -> None:
    answer = call(f"{daemon.base_url}/v1/systemone", method="POST", raw=body)
    assert (answer.status, answer.code) == (400, "INVALID_JSON")


def test_a_body_of_eight_mebibytes_and_one_byte_more(daemon: Daemon) -> None:
    for extra, status in ((0, 400), (1, 413)):
        body = b"x" * (http_server.MOST_BODY_BYTES + extra)
        answer = call(f"{daemon.base_url}/v1/systemone", raw=body)
        assert answer.status == status
        assert "x-typesafe-request-id" in answer.headers


def test_a_chunked_body(daemon: Daemon) -> None:
    connection = http.client.HTTPConnection(*endpoint(daemon))
    connection.request("POST", "/api/show", iter([b'{"model":', b'"laya:en"}']), encode_chunked=True)
    assert connection.getresponse().status == 200
    connection.close()


@pytest.mark.parametrize("given", ["abc-1.2_Z", "x" * 128])
def test_a_good_request_id_is_echoed(daemon: Daemon, given: str) -> None:
    answer = call(f"{daemon.base_url}/v1/models", headers={"X-Request-Id": given})
    assert answer.headers["x-request-id"] == answer.headers["x-typesafe-request-id"] == given


@pytest.mark.parametrize("given", ["", "with space", "x" * 129])
def test_any_other_request_id_is_replaced(daemon: Daemon, given: str) -> None:
    answer = call(f"{daemon.base_url}/api/ps", headers={"X-Request-Id": given})
    assert re.fullmatch(r"req_[0-9a-f]+", answer.headers["x-request-id"])
    assert "x-typesafe-request-id" not in answer.headers


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:1", 200), ("a.internal", 200), ("10.1.2.3:11435", 200), ("[::1]:1", 200), ("evil.example", 403)],
)
def test_a_loopback_daemon_checks_the_host(daemon: Daemon, host: str, status: int) -> None:
    assert call(f"{daemon.base_url}/api/ps", headers={"Host": host}).status == status


def test_a_pod_has_no_host_check(start: StartDaemon) -> None:
    daemon = start(OLLAYA_HOST="0.0.0.0:0")
    port = daemon.base_url.rpartition(":")[2]
    assert call(f"http://127.0.0.1:{port}/api/ps", headers={"Host": "evil.example"}).status == 200


def test_origins(start: StartDaemon) -> None:
    daemon = start(OLLAYA_ORIGINS="https://*.corp, https://one.example")
    statuses = {
        origin: call(f"{daemon.base_url}/api/ps", headers={"Origin": origin}).status
        for origin in (
            "http://localhost:3000",
            "tauri://x",
            "https://a.corp",
            "https://one.example",
            "https://evil.net",
        )
    }
    assert list(statuses.values()) == [200, 200, 200, 200, 403]


def test_a_preflight_needs_no_key(start: StartDaemon) -> None:
    daemon = start(OLLAYA_API_KEY="s3cret")
    headers = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST"}
    answer = call(f"{daemon.base_url}/api/decide", method="OPTIONS", headers=headers)
    assert (answer.status, answer.headers["access-control-max-age"]) == (204, "86400")


def test_connections_are_kept_alive(daemon: Daemon) -> None:
    connection = http.client.HTTPConnection(*endpoint(daemon))
    connection.connect()
    first = connection.sock
    for path in ("/", "/nowhere", "/api/ps"):
        connection.request("POST" if path == "/api/ps" else "GET", path, b"{}" if path == "/api/ps" else None)
        connection.getresponse().read()
        assert connection.sock is first
    connection.close()


def test_garbage_is_refused_in_the_format_of_the_api(daemon: Daemon) -> None:
    assert b'"code": "INVALID_JSON"' in send_raw(daemon, b"nonsense\r\n\r\n")
    assert b"400" in send_raw(daemon, b"POST /api/show HTTP/1.1\r\nContent-Length: many\r\n\r\n").partition(b"\r\n")[0]


def test_half_open_clients_are_dropped(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server._Connection, "timeout", 1)
    before = threading.active_count()
    clients = [socket.create_connection(endpoint(daemon)) for _ in range(20)]
    for index, client in enumerate(clients):
        client.sendall([b"", b"GET /api", b"POST /api/show HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"][index % 3])
    assert call(f"{daemon.base_url}/").status == 200
    wait_for(lambda: threading.active_count() <= before)
    for client in clients:
        client.close()


def test_many_new_connections_at_once(daemon: Daemon) -> None:
    statuses: list[int] = []

    def ask() -> None:
        statuses.extend(call(f"{daemon.base_url}/api/ps").status for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 100


def test_a_stop_waits_for_the_request_under_way(store: StoreDirectory, start: StartDaemon) -> None:
    store.put("laya:en", onnx())
    daemon = start()
    client = socket.create_connection(endpoint(daemon))
    address = endpoint(daemon)
    body = b'{"model": "laya:en"}'
    client.sendall(b"POST /api/show HTTP/1.1\r\nHost: x.local\r\nContent-Length: %d\r\n\r\n" % len(body))
    wait_for(lambda: daemon._servers[0]._busy)
    stopper = threading.Thread(target=daemon.stop)
    stopper.start()
    client.sendall(body)
    assert client.recv(65536).startswith(b"HTTP/1.1 200")
    stopper.join()
    client.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_tags_are_newest_first_with_every_field(store: StoreDirectory, daemon: Daemon) -> None:
    newer = store.put("nli:latest", onnx({"sharpness": 4}))
    models = call(f"{daemon.base_url}/api/tags").json["models"]
    assert [model["name"] for model in models] == ["nli:latest", "laya:en"]
    assert set(models[0]) == {"name", "model", "modified_at", "size", "digest", "details"}
    assert models[0]["digest"] == newer.digest
    assert models[0]["details"]["quantization_level"] == "F16/F32"


def test_one_unreadable_manifest_fails_the_list(store: StoreDirectory, daemon: Daemon) -> None:
    store.manifest("laya:en").with_name("en.tmp-1").write_text("{")
    answer = call(f"{daemon.base_url}/api/tags")
    assert (answer.status, answer.code) == (500, "STORAGE_ERROR")


def test_show_has_everything_but_the_digest(store: StoreDirectory, daemon: Daemon) -> None:
    shown = call(f"{daemon.base_url}/api/show", {"model": "laya:en"}).json
    assert set(shown) == {
        *("license", "modelfile", "parameters", "questions", "router", "details", "model_info", "capabilities"),
        "modified_at",
    }
    assert shown["capabilities"] == ["choice", "score", "noul"]
    store.put("laya:latest", router(english="laya:en"))
    assert call(f"{daemon.base_url}/api/show", {"model": "laya"}).json["router"]["default"] == "english"


def test_models_by_name(store: StoreDirectory, daemon: Daemon) -> None:
    store.put("decima:small", onnx())
    assert call(f"{daemon.base_url}/v1/models").json["models"] == [
        {"name": "decima:small", "description": "", "release_date": "1970-01-01"},
        {"name": "laya:en", "description": "small", "release_date": "2026-09-01"},
    ]


def test_short_names_belong_to_the_default_registry(store: StoreDirectory, start: StartDaemon) -> None:
    store.put("laya:en", onnx(), "mirror.corp_5000")
    daemon = start(OLLAYA_REGISTRY="http://mirror.corp:5000")
    assert call(f"{daemon.base_url}/api/decide", {"model": "laya:en"}).json["model"] == "laya:en"
    assert call(f"{daemon.base_url}/api/ps").json["models"][0]["name"] == "laya:en"
    assert call(f"{daemon.base_url}/v1/models").json["models"][0]["name"] == "mirror.corp:5000/library/laya:en"
    other = start()
    assert call(f"{other.base_url}/api/decide", {"model": "laya:en"}).status == 404


def test_copy_and_delete(store: StoreDirectory, daemon: Daemon) -> None:
    url = daemon.base_url
    assert call(f"{url}/api/copy", {"source": "laya:en", "destination": "mine:1"}).status == 200
    assert call(f"{url}/api/delete", {"model": "laya:en"}, method="DELETE").status == 200
    assert not store.manifest("laya:en").parent.exists()
    assert call(f"{url}/api/decide", {"model": "mine:1"}).status == 200
    assert call(f"{url}/api/delete", {"model": "mine:1"}, method="DELETE").status == 200
    assert list((store.root / "blobs").iterdir()) == []
    assert call(f"{url}/api/delete", {"model": "mine:1"}, method="DELETE").code == "MODEL_NOT_FOUND"


def test_presets(daemon: Daemon, start: StartDaemon) -> None:
    url = daemon.base_url
    custom = {"name": "mine", "questions": {"a": {"type": "noul"}}}
    assert call(f"{url}/api/presets/create", custom).status == 200
    names = [preset["name"] for preset in call(f"{url}/api/presets").json["presets"]]
    assert names == ["triage", "email", "guard", "moderation", "router", "agent", "mine"]
    assert call(f"{url}/api/presets/show", {"name": "mine"}).json["questions"] == custom["questions"]
    assert call(f"{url}/api/decide", {"model": "laya:en", "state": "x", "preset": "mine"}).json["answers"].keys() == {
        "a"
    }
    assert call(f"{url}/api/decide", {"model": "laya:en", "state": "x", "preset": "no"}).code == "NOT_FOUND"
    assert call(f"{url}/api/presets/delete", {"name": "triage"}, method="DELETE").status == 403
    assert call(f"{url}/api/presets/delete", {"name": "mine"}, method="DELETE").status == 200
    assert call(f"{url}/api/presets/show", {"name": "../x"}).status == 404
    assert call(f"{start(OLLAYA_STANDIN_VERSION='0.9.0').base_url}/api/presets").status == 404

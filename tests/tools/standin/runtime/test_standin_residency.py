"""Loading, pinning, expiry, eviction, crashes: the residency rules as `/api/ps` shows them (spec section 2.6)."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from tests.tools.standin.runtime.conftest import (
    Answer,
    ManualClock,
    StartDaemon,
    StoreDirectory,
    call,
    onnx,
    router,
    wait_for,
)
from tools.standin.runtime.daemon import Daemon

NOUL = {"q": {"type": "noul", "instructions": "a refund is wanted"}}


def load(daemon: Daemon, model: str = "laya:en", **fields: Any) -> Answer:
    return call(f"{daemon.base_url}/api/decide", {"model": model, **fields})


def ask(daemon: Daemon, model: str = "laya:en", state: str = "refund please") -> Answer:
    return call(f"{daemon.base_url}/v1/systemone", {"model": model, "state": state, "questions": NOUL})


def loaded(daemon: Daemon) -> list[dict[str, Any]]:
    return list(call(f"{daemon.base_url}/api/ps").json["models"])


def test_nothing_is_loaded_until_asked_for(store: StoreDirectory, start: StartDaemon) -> None:
    store.put("laya:en", onnx())
    daemon = start()
    assert call(f"{daemon.base_url}/").body == b"Ollaya is running"
    assert call(f"{daemon.base_url}/api/ps").json == {"models": []}


def test_a_pinned_model_shows_digest_device_and_null_expiry(store: StoreDirectory, start: StartDaemon) -> None:
    model = store.put("laya:en", onnx(context_length=512))
    daemon = start()
    answer = load(daemon, keep_alive=-1)
    assert answer.status == 200
    assert answer.json["done_reason"] == "load"
    size = sum(len(blob) for blob in model.blobs.values())
    assert loaded(daemon) == [
        {
            "name": "laya:en",
            "model": "laya:en",
            "size": size,
            "digest": model.digest,
            "details": {
                "parent_model": "",
                "format": "onnx",
                "family": "laya",
                "families": ["laya"],
                "parameter_size": "421M",
                "quantization_level": "F32",
            },
            "expires_at": None,
            "size_vram": 0,
            "context_length": 512,
            "device": "cpu",
        }
    ]


@pytest.mark.parametrize("keep_alive", [-1, "-1", "-5m", -0.5])
def test_any_negative_keep_alive_pins(store: StoreDirectory, start: StartDaemon, keep_alive: Any) -> None:
    store.put("laya:en", onnx())
    daemon = start()
    load(daemon, keep_alive=keep_alive)
    assert loaded(daemon)[0]["expires_at"] is None


def test_a_second_load_takes_no_time(store: StoreDirectory, start: StartDaemon, manual_clock: ManualClock) -> None:
    store.put("laya:en", onnx())
    daemon = start(manual_clock.clock())
    load(daemon)
    assert load(daemon).json["load_duration"] == 0


def test_traffic_takes_the_pin_away(store: StoreDirectory, start: StartDaemon) -> None:
    store.put("laya:en", onnx())
    daemon = start()
    load(daemon, keep_alive=-1)
    assert ask(daemon).status == 200
    assert loaded(daemon)[0]["expires_at"] is not None


def test_traffic_keeps_the_pin_of_a_daemon_that_keeps_forever(store: StoreDirectory, start: StartDaemon) -> None:
    store.put("laya:en", onnx())
    daemon = start(OLLAYA_KEEP_ALIVE="-1")
    load(daemon)
    ask(daemon)
    assert loaded(daemon)[0]["expires_at"] is None


def test_an_expired_model_goes(store: StoreDirectory, start: StartDaemon, manual_clock: ManualClock) -> None:
    store.put("laya:en", onnx())
    daemon = start(manual_clock.clock())
    load(daemon, keep_alive="1h30m")
    assert loaded(daemon)[0]["expires_at"] == "2027-01-15T09:30:00.000Z"
    manual_clock.advance(5399)
    daemon.residency.reap()
    assert loaded(daemon)
    manual_clock.advance(1)
    wait_for(lambda: not loaded(daemon))


def test_zero_unloads_at_once_and_is_fine_when_nothing_is_loaded(store: StoreDirectory, start: StartDaemon) -> None:
    store.put("laya:en", onnx())
    daemon = start()
    load(daemon, keep_alive=-1)
    for _ in range(2):
        assert load(daemon, keep_alive=0).json["done_reason"] == "unload"
        assert loaded(daemon) == []


def test_the_fourth_model_evicts_the_pinned_least_recently_used_one(
    store: StoreDirectory, start: StartDaemon, manual_clock: ManualClock
) -> None:
    daemon = start(manual_clock.clock())
    for name in ("a:1", "b:1", "c:1", "d:1"):
        store.put(name, onnx(family=name))
    for name in ("b:1", "a:1", "c:1"):
        manual_clock.advance(1)
        load(daemon, name, keep_alive=-1)
    load(daemon, "d:1", keep_alive=-1)
    assert [entry["name"] for entry in loaded(daemon)] == ["a:1", "c:1", "d:1"]


def test_a_killed_child_is_gone_until_the_next_request(store: StoreDirectory, start: StartDaemon) -> None:
    store.put("laya:en", onnx())
    daemon = start()
    load(daemon, keep_alive=-1)
    assert daemon.residency.kill("laya:en") == 1
    wait_for(lambda: not loaded(daemon))
    assert ask(daemon).status == 200
    assert loaded(daemon)[0]["expires_at"] is not None


def test_a_tag_that_crashes_after_two_answers(store: StoreDirectory, start: StartDaemon) -> None:
    store.put("laya:en", onnx({"switches": {"crash_after": 2}}))
    daemon = start()
    assert [ask(daemon).status for _ in range(2)] == [200, 200]
    answer = ask(daemon)
    assert (answer.status == 500 and answer.code == "INFERENCE_FAILED") or answer.status == 200  # reaped in between
    wait_for(lambda: not loaded(daemon) or ask(daemon).status == 500)


def test_a_slow_load_shows_nothing_and_survives_its_client(store: StoreDirectory, start: StartDaemon) -> None:
    store.put("laya:en", onnx({"load_seconds": 2}))
    daemon = start()
    host, port = daemon.base_url.removeprefix("http://").split(":")
    body = b'{"model": "laya:en", "keep_alive": -1}'
    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            b"POST /api/decide HTTP/1.1\r\nHost: x.local\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
    assert loaded(daemon) == []
    assert wait_for(lambda: loaded(daemon))[0]["expires_at"] is None


def test_loads_are_serialised(store: StoreDirectory, start: StartDaemon) -> None:
    for name in ("a:1", "b:1"):
        store.put(name, onnx({"load_seconds": 0.5}, family=name))
    daemon = start()
    threads = [threading.Thread(target=load, args=(daemon, name)) for name in ("a:1", "b:1")]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(loaded(daemon)) == 1)
    for thread in threads:
        thread.join()
    assert len(loaded(daemon)) == 2


@pytest.mark.parametrize(
    ("decision", "environment", "text"),
    [
        ({"switches": {"load_hangs": True}}, {"OLLAYA_LOAD_TIMEOUT": "50ms"}, "timed out loading"),
        ({"load_seconds": 9}, {"OLLAYA_LOAD_TIMEOUT": "50ms"}, "timed out loading"),
        ({"switches": {"load_failure": "out of memory | killed"}}, {}, "out of memory | killed"),
        ({"sharpness": -1}, {}, "sharpness"),
        ({"temperature": 0}, {}, "temperature"),
        ({"error": True}, {}, "error"),
        ({"memory_bytes": 10**30}, {}, "memory_bytes"),
        ({"switches": {"no_such": 1}}, {}, "no_such"),
        ({"switches": {"pull_start_failure": True}}, {}, "pull_start_failure"),
        ({}, {"OLLAYA_DEVICE": "cuda"}, "device cuda"),
        ({"switches": {"gpu": "broken"}}, {"OLLAYA_DEVICE": "cuda:1"}, "device cuda:1"),
    ],
)
def test_a_failed_load_is_answered_and_tried_again(
    store: StoreDirectory, start: StartDaemon, decision: dict[str, Any], environment: dict[str, str], text: str
) -> None:
    store.put("laya:en", onnx(decision))
    daemon = start(**environment)
    for _ in range(2):
        answer = load(daemon, keep_alive=-1)
        assert (answer.status, answer.code) == (500, "MODEL_LOAD_FAILED")
        assert text in answer.json["error"]
        assert loaded(daemon) == []
    assert call(f"{daemon.base_url}/").status == 200


@pytest.mark.parametrize(
    ("configured", "switches", "device", "precision"),
    [
        ("cpu", {"gpu": "working"}, "cpu", "F32"),
        ("auto", {}, "cpu", "F32"),
        ("auto", {"gpu": "working"}, "cuda:0", "F16"),
        ("auto", {"gpu": "broken"}, "cpu", "F32"),
        ("cuda", {"gpu": "working"}, "cuda:0", "F16"),
        ("cuda:1", {"gpu": "working"}, "cuda:1", "F16"),
        ("cpu", {"device": "cuda:0"}, "cuda:0", "F16"),
    ],
)
def test_the_device_a_model_ends_up_on(
    store: StoreDirectory, start: StartDaemon, configured: str, switches: dict[str, Any], device: str, precision: str
) -> None:
    store.put("laya:en", onnx({"switches": switches}))
    daemon = start(OLLAYA_DEVICE=configured)
    load(daemon)
    entry = loaded(daemon)[0]
    assert (entry["device"], entry["details"]["quantization_level"]) == (device, precision)
    assert entry["size_vram"] == (0 if device == "cpu" else entry["size"])


def test_a_replaced_manifest_leaves_two_entries_of_one_name(store: StoreDirectory, start: StartDaemon) -> None:
    first = store.put("laya:en", onnx())
    daemon = start()
    load(daemon)
    second = store.put("laya:en", onnx({"sharpness": 3}))
    load(daemon)
    assert {(entry["name"], entry["digest"]) for entry in loaded(daemon)} == {
        ("laya:en", first.digest),
        ("laya:en", second.digest),
    }


def test_equal_manifests_are_one_child_under_the_first_name(store: StoreDirectory, start: StartDaemon) -> None:
    store.put("laya:en", onnx())
    store.put("copy:1", onnx())
    daemon = start()
    load(daemon, "copy:1")
    load(daemon, "laya:en")
    assert [entry["name"] for entry in loaded(daemon)] == ["copy:1"]


def test_a_deleted_name_leaves_empty_details(store: StoreDirectory, start: StartDaemon) -> None:
    store.put("laya:en", onnx())
    daemon = start()
    load(daemon)
    store.manifest("laya:en").unlink()
    entry = loaded(daemon)[0]
    assert (entry["details"]["format"], entry["context_length"], entry["name"]) == ("", 0, "laya:en")


def test_a_pin_the_runtime_ignores(store: StoreDirectory, start: StartDaemon) -> None:
    store.put("laya:en", onnx({"switches": {"unpinned": 60}}))
    daemon = start(OLLAYA_KEEP_ALIVE="-1")
    load(daemon, keep_alive=-1)
    assert loaded(daemon)[0]["expires_at"] is not None


def test_a_router_loads_its_present_targets_and_is_not_listed(store: StoreDirectory, start: StartDaemon) -> None:
    store.put("laya:latest", router(english="laya:en", multilingual="laya:multilingual"))
    store.put("laya:en", onnx())
    daemon = start()
    assert load(daemon, "laya", keep_alive=-1).json["model"] == "laya:latest"
    assert [entry["name"] for entry in loaded(daemon)] == ["laya:en"]


def test_a_tag_can_bring_the_process_down(store: StoreDirectory, start: StartDaemon) -> None:
    exits: list[int] = []
    store.put("laya:en", onnx({"switches": {"exit_after": 0.01, "exit_code": 7}}))
    daemon = start()
    daemon._exit_process = exits.append
    load(daemon)
    assert wait_for(lambda: exits) == [7]

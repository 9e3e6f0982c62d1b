"""Failure switches, one by one, from the three places they are set in (spec section 10.2)."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.tools.standin.runtime.conftest import Answer, StartDaemon, StoreDirectory, call, onnx, wait_for
from tools.standin.runtime import switches as switches_module
from tools.standin.runtime.daemon import Daemon
from tools.standin.runtime.switches import NAMES, SwitchError, Switches, parse_switches, switches_from_environment

CONTROL = {"OLLAYA_STANDIN_CONTROL": "127.0.0.1:0"}


@pytest.fixture
def daemon(store: StoreDirectory, start: StartDaemon) -> Daemon:
    store.put("laya:en", onnx())
    return start(**CONTROL)


def turn(daemon: Daemon, method: str = "PUT", **switches: Any) -> Answer:
    return call(f"{daemon.control_url}/switches", switches, method=method)


def ask(daemon: Daemon, model: str = "laya:en") -> Answer:
    body = {"model": model, "state": "x", "questions": {"q": {"type": "noul"}}}
    return call(f"{daemon.base_url}/v1/systemone", body)


def load(daemon: Daemon, model: str = "laya:en") -> Answer:
    return call(f"{daemon.base_url}/api/decide", {"model": model, "keep_alive": -1})


def test_the_control_listener_shows_replaces_and_changes(daemon: Daemon) -> None:
    assert call(f"{daemon.control_url}/switches").json == {}
    assert turn(daemon, truncated=True).json == {"truncated": True}
    assert turn(daemon, "PATCH", queue_full=True).json == {"truncated": True, "queue_full": True}
    assert turn(daemon, "PATCH", truncated=None).json == {"queue_full": True}
    assert turn(daemon).json == {}
    assert turn(daemon, no_such=1).status == 422
    assert call(f"{daemon.control_url}/").status == 404
    assert call(f"{daemon.base_url}/switches").status == 404


@pytest.mark.parametrize(
    ("switches", "status", "code"),
    [
        ({"queue_full": True}, 503, "QUEUE_FULL"),
        ({"unauthorized": True}, 401, "UNAUTHORIZED"),
        ({"truncated": True}, 422, "STATE_TRUNCATED"),
        ({"inference_crash": True}, 500, "INFERENCE_FAILED"),
        ({"load_failure": "no memory"}, 500, "MODEL_LOAD_FAILED"),
        ({"refusal": {"status": 418, "code": "NEW_CODE"}}, 418, "NEW_CODE"),
    ],
)
def test_a_refusal_from_either_place(
    store: StoreDirectory, daemon: Daemon, switches: dict[str, Any], status: int, code: str
) -> None:
    store.put("bad:1", onnx({"switches": switches}))
    refused = ask(daemon, "bad:1")
    assert (refused.status, refused.code) == (status, code)
    assert ask(daemon).status == 200
    wait_for(lambda: call(f"{daemon.base_url}/api/ps").status == 200)
    call(f"{daemon.base_url}/api/decide", {"model": "laya:en", "keep_alive": 0})
    turn(daemon, **switches)
    refused = ask(daemon)
    assert (refused.status, refused.code) == (status, code)
    assert call(f"{daemon.base_url}/").status == 200
    turn(daemon)
    wait_for(lambda: ask(daemon).status == 200)


def test_a_full_queue_says_when_to_come_back(daemon: Daemon) -> None:
    turn(daemon, queue_full=True)
    assert load(daemon).headers["retry-after"] == "1"


def test_html_and_broken_json(store: StoreDirectory, daemon: Daemon) -> None:
    store.put("html:1", onnx({"switches": {"html_error": True}}))
    store.put("half:1", onnx({"switches": {"invalid_json": True}}))
    assert (ask(daemon, "html:1").status, ask(daemon, "html:1").headers["content-type"]) == (502, "text/html")
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        json.loads(ask(daemon, "half:1").body)
    turn(daemon, html_error=True)
    assert call(f"{daemon.base_url}/api/ps").body.startswith(b"<html>")
    turn(daemon, invalid_json=True)
    half = call(f"{daemon.base_url}/api/ps")
    assert half.status == 200
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        json.loads(half.body)


def test_a_hung_daemon_answers_once_it_recovers(daemon: Daemon) -> None:
    answers: list[Answer] = []
    turn(daemon, hung=True)
    client = threading.Thread(target=lambda: answers.append(call(f"{daemon.base_url}/")))
    client.start()
    client.join(0.1)
    assert answers == []
    turn(daemon)
    client.join(5)
    assert answers[0].status == 200


def test_old_and_future_field_sets(daemon: Daemon) -> None:
    load(daemon)
    turn(daemon, field_set="old")
    old = call(f"{daemon.base_url}/api/ps").json["models"][0]
    assert set(old) == {"name", "digest", "details", "expires_at", "device"}
    turn(daemon, field_set="future")
    assert "x_unknown" in call(f"{daemon.base_url}/api/ps").json["models"][0]


def test_a_foreign_digest_is_reported_while_the_switch_is_on(daemon: Daemon) -> None:
    load(daemon)
    digest = call(f"{daemon.base_url}/api/ps").json["models"][0]["digest"]
    turn(daemon, digest="f" * 64)
    assert call(f"{daemon.base_url}/api/ps").json["models"][0]["digest"] == "f" * 64
    turn(daemon)
    assert call(f"{daemon.base_url}/api/ps").json["models"][0]["digest"] == digest


def test_the_control_listener_counts_what_the_api_answered(daemon: Daemon) -> None:
    turn(daemon, unauthorized=True)
    load(daemon)
    turn(daemon)
    load(daemon)
    load(daemon)
    counted = {"POST /api/decide 401": 1, "POST /api/decide 200": 2}
    assert call(f"{daemon.control_url}/requests").json == counted


def test_a_child_can_be_killed_from_outside(daemon: Daemon) -> None:
    load(daemon)
    assert call(f"{daemon.control_url}/kill", {"model": "none:1"}).json == {"killed": 0}
    assert call(f"{daemon.control_url}/kill", {}).json == {"killed": 1}
    wait_for(lambda: call(f"{daemon.base_url}/api/ps").json == {"models": []})


def test_the_process_exits_when_told(daemon: Daemon) -> None:
    exits: list[int] = []
    daemon._exit_process = exits.append
    turn(daemon, exit_after=30, exit_code=9)
    turn(daemon, exit_after=0)
    assert wait_for(lambda: exits) == [1]


def test_the_control_listener_overrides_the_tag(store: StoreDirectory, daemon: Daemon) -> None:
    store.put("bad:1", onnx({"switches": {"truncated": True}}))
    turn(daemon, truncated=False)
    assert ask(daemon, "bad:1").status == 200


def test_switches_of_the_environment() -> None:
    environment = {
        "OLLAYA_STANDIN_UNPINNED": "60",
        "OLLAYA_STANDIN_LOAD_FAILURE": "out of memory",
        "OLLAYA_STANDIN_ANSWERS": '{"x": "a"}',
        "OLLAYA_STANDIN_VERSION": "0.7.3",
    }
    expected = Switches(unpinned=60, load_failure="out of memory", answers={"x": "a"})
    assert switches_from_environment(environment) == expected


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"nope": 1},
        {"gpu": "fast"},
        {"gpu": []},
        {"unpinned": True},
        {"unpinned": -1},
        {"crash_after": 0},
        {"crash_after": 1.5},
        {"exit_code": 256},
        {"load_failure": ""},
        {"hung": 1},
        {"refusal": {"status": 200, "code": "X"}},
        {"refusal": {"status": 500}},
        {"answers": []},
        {"load_seconds": float("nan")},
    ],
)
def test_values_outside_the_table_are_refused(document: Any) -> None:
    with pytest.raises(SwitchError):
        parse_switches(document)


@pytest.mark.parametrize("name", ["field_set", "pull_start_failure", "backoff_scale"])
def test_switches_without_a_meaning_on_a_tag(name: str) -> None:
    with pytest.raises(SwitchError, match=name):
        parse_switches({name: None}, of_tag=True)


def test_every_switch_is_in_the_table() -> None:
    documented = [line.split()[0] for line in (switches_module.__doc__ or "").splitlines() if line[:1].isalpha()]
    assert set(NAMES) <= set(documented)

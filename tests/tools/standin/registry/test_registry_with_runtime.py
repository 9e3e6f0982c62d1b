"""The two stand-ins together: what each tag's name promises is what the stand-in runtime does with it."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tools.standin.registry import Host, Registry
from tools.standin.runtime.daemon import Daemon

GOOD = ["laya:en", "laya:multilingual", "nli:latest", "laya:latest", "laya:en-better", "laya:en-equal"]
GOOD += ["laya:en-worse", "laya:en-overconfident", "laya:en-slow", "laya:en-large"]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as running:
        yield running


@pytest.fixture
def daemon(registry: Registry, tmp_path: Path) -> Iterator[Daemon]:
    environment = {
        "OLLAYA_REGISTRY": registry.base_url,
        "OLLAYA_HF_ENDPOINT": registry.weights_url,
        "OLLAYA_STANDIN_GPU": "working",
        "OLLAYA_DEVICE": "cuda",
    }
    with Daemon.from_environment(environment, tmp_path / "models") as running:
        yield running


def call(daemon: Daemon, path: str, body: Any = None) -> tuple[int, list[dict[str, Any]]]:
    """A call to the daemon.

    Returns:
        The status, and the documents of the answer: one, or one per line of a stream.
    """
    connection = http.client.HTTPConnection(urlsplit(daemon.base_url).netloc, timeout=20)
    try:
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None)
        response = connection.getresponse()
        return response.status, [json.loads(line) for line in response.read().splitlines()]
    finally:
        connection.close()


def pull(daemon: Daemon, tag: str) -> dict[str, Any]:
    """Pull a tag; the last line of the stream."""
    return call(daemon, "/api/pull", {"model": tag})[1][-1]


def load(daemon: Daemon, tag: str) -> int:
    return call(daemon, "/api/decide", {"model": tag, "keep_alive": -1})[0]


def loaded(daemon: Daemon) -> dict[str, Any]:
    (entry,) = call(daemon, "/api/ps")[1][0]["models"]
    assert isinstance(entry, dict)
    return entry


@pytest.mark.parametrize("tag", GOOD)
def test_a_good_model_is_pulled_with_the_registrys_digest(registry: Registry, daemon: Daemon, tag: str) -> None:
    assert pull(daemon, tag) == {"status": "success"}
    digests = {entry["digest"] for entry in call(daemon, "/api/tags")[1][0]["models"]}
    assert registry.digest(tag) in digests


def test_a_pull_asks_for_one_manifest_and_sends_no_key_to_the_registry(registry: Registry, daemon: Daemon) -> None:
    pull(daemon, "laya:en")
    asked = [request for request in registry.requests if request.host is Host.REGISTRY]
    assert [request.path for request in asked if "/manifests/" in request.path] == ["/v2/library/laya/manifests/en"]
    assert {request.header("Authorization") for request in asked} == {None}
    assert len([request for request in registry.requests if request.host is Host.WEIGHTS]) == 2


def test_the_large_model_is_fetched_in_ranges(registry: Registry, daemon: Daemon) -> None:
    pull(daemon, "laya:en-large")
    assert any(request.header("Range") for request in registry.requests)


def test_a_good_model_loads_pinned_on_the_device(registry: Registry, daemon: Daemon) -> None:
    pull(daemon, "laya:en")
    assert load(daemon, "laya:en") == 200
    entry = loaded(daemon)
    assert (entry["digest"], entry["device"], entry["expires_at"]) == (registry.digest("laya:en"), "cuda:0", None)


def test_the_wrong_device(daemon: Daemon) -> None:
    pull(daemon, "laya:en-wrong-device")
    assert load(daemon, "laya:en-wrong-device") == 200
    assert loaded(daemon)["device"] == "metal"


def test_the_wrong_digest(registry: Registry, daemon: Daemon) -> None:
    pull(daemon, "laya:en-wrong-digest")
    assert load(daemon, "laya:en-wrong-digest") == 200
    assert loaded(daemon)["digest"] == "0" * 64 != registry.digest("laya:en-wrong-digest")


def test_an_unpinned_model(daemon: Daemon) -> None:
    pull(daemon, "laya:en-unpinned")
    assert load(daemon, "laya:en-unpinned") == 200
    assert loaded(daemon)["expires_at"] is not None


def test_a_model_that_does_not_load(daemon: Daemon) -> None:
    pull(daemon, "laya:en-no-load")
    assert load(daemon, "laya:en-no-load") == 500
    assert call(daemon, "/api/ps")[1] == [{"models": []}]


def test_a_model_that_crashes_when_it_is_asked(daemon: Daemon) -> None:
    pull(daemon, "laya:en-crash")
    assert load(daemon, "laya:en-crash") == 200
    question = {"q": {"type": "choice", "criteria": ["billing", "sales"]}}
    status, (body,) = call(daemon, "/v1/systemone", {"model": "laya:en-crash", "state": "x", "questions": question})
    assert (status, body["code"]) == (500, "INFERENCE_FAILED")


def test_the_broken_model_fails_on_its_digest(daemon: Daemon) -> None:
    assert pull(daemon, "laya:en-broken")["code"] == "DIGEST_MISMATCH"


@pytest.mark.parametrize(
    ("tag", "outcome"),
    [
        ("odd:no-urls", "success"),
        ("odd:unknown-media-type", "success"),
        ("odd:unsupported-format", "UNSUPPORTED_MODEL"),
        ("odd:malformed-digest", "REGISTRY_ERROR"),
        ("odd:schema-1", "REGISTRY_ERROR"),
        ("odd:invalid-json", "REGISTRY_ERROR"),
        ("odd:not-an-object", "REGISTRY_ERROR"),
        ("odd:none", "MODEL_NOT_FOUND"),
    ],
)
def test_unusual_manifests_end_in_a_definite_way(daemon: Daemon, tag: str, outcome: str) -> None:
    last = pull(daemon, tag)
    assert last.get("code", last.get("status")) == outcome

"""Both stand-ins together: what the registry publishes is pulled, loaded, proved and asked as a rollout would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.tools.standin.runtime.conftest import Answer, StartDaemon, call
from tools.standin.registry.server import Registry
from tools.standin.runtime.daemon import Daemon

DEPARTMENT = {"type": "choice", "criteria": {"billing": "charges, refunds", "technical": "bugs", "other": None}}


@pytest.fixture(scope="module")
def published() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


@pytest.fixture
def daemon(published: Registry, start: StartDaemon) -> Daemon:
    quick = {"OLLAYA_STANDIN_LOAD_SECONDS": "0", "OLLAYA_STANDIN_BACKOFF_SCALE": "0.01"}
    return start(OLLAYA_REGISTRY=published.base_url, OLLAYA_HF_ENDPOINT=published.weights_url, **quick)


def pull(daemon: Daemon, model: str) -> dict[str, Any]:
    return call(f"{daemon.base_url}/api/pull", {"model": model}).lines[-1]


def load(daemon: Daemon, model: str) -> Answer:
    return call(f"{daemon.base_url}/api/decide", {"model": model, "keep_alive": -1})


@pytest.mark.parametrize(
    ("model", "device", "pinned"),
    [
        ("laya:en", "cpu", True),
        ("laya:en-large", "cpu", True),
        ("jevk5:latest", "cpu", True),
        ("laya:en-wrong-device", "metal", True),
        ("laya:en-on-gpu", "cuda:0", True),
        ("laya:en-unpinned", "cpu", False),
    ],
)
def test_a_published_model_serves(daemon: Daemon, model: str, device: str, pinned: bool) -> None:
    assert pull(daemon, model) == {"status": "success"}
    assert load(daemon, model).json["done_reason"] == "load"
    [entry] = call(f"{daemon.base_url}/api/ps").json["models"]
    assert (entry["name"], entry["device"], entry["expires_at"] is None) == (model, device, pinned)
    body = {"model": model, "state": "refund my second charge", "questions": {"q": DEPARTMENT}}
    assert call(f"{daemon.base_url}/v1/systemone", body).json["answers"]["q"]["type"] == "choice"


def test_a_router_brings_both_targets(daemon: Daemon) -> None:
    assert pull(daemon, "laya") == {"status": "success"}
    assert load(daemon, "laya:latest").status == 200
    names = [entry["name"] for entry in call(f"{daemon.base_url}/api/ps").json["models"]]
    assert names == ["laya:en", "laya:multilingual"]


def test_models_that_cannot_serve(daemon: Daemon) -> None:
    assert pull(daemon, "laya:en-broken")["code"] == "DIGEST_MISMATCH"
    assert pull(daemon, "laya:en-no-load") == {"status": "success"}
    assert load(daemon, "laya:en-no-load").code == "MODEL_LOAD_FAILED"

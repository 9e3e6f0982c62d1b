"""`dmctl wait`: safe right after `kubectl apply`, with an exit code for each way it can end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from api.keys import API_VERSION, PLURAL
from tests.cli.commands import Dmctl, Done
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.waiting import until

pytestmark = pytest.mark.anyio


def conditions(reconciling: str, stalled: str, reason: str, message: str) -> list[dict[str, str]]:
    told = {"reason": reason, "message": message}
    return [
        {"type": "Ready", "status": "True", "reason": "Ready", "message": "serving laya:en"},
        {"type": "Reconciling", "status": reconciling, **told},
        {"type": "Stalled", "status": stalled, **told},
    ]


DONE = {"phase": "Ready", "conditions": conditions("False", "False", "Ready", "")}
CACHING = {"phase": "Caching", "conditions": conditions("True", "False", "Caching", "the prefetch Job is running")}
REFUSED = {"phase": "Ready", "conditions": conditions("False", "True", "ModelNotFound", "no such tag")}
REJECTED = {"phase": "RolledBack", "conditions": conditions("False", "True", "CacheTimeout", "Pod x: not found")}
PARKED = {"phase": "AwaitingPromotion", "conditions": conditions("True", "False", "PromotionPending", "annotate it")}


class Waited:
    """A cluster with one DecisionModel, and `dmctl wait` for it."""

    def __init__(self, server: FakeApiServer, dmctl: Dmctl) -> None:
        self.server = server
        self._dmctl = dmctl
        self._kubeconfig = str(server.write_kubeconfig(dmctl.directory / "kubeconfig"))

    async def __call__(self, *arguments: str) -> Done:
        return await asyncio.to_thread(self._dmctl, "wait", *arguments, "--kubeconfig", self._kubeconfig)

    def put(self, model: str, status: dict[str, Any], *, looked_at: bool = True) -> None:
        """Write the DecisionModel; a changed spec is one that nobody has looked at yet."""
        made = self._put(model, {})
        observed = made["metadata"]["generation"] - (not looked_at)
        self._put(model, {**status, "observedGeneration": observed})

    def _put(self, model: str, status: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": "router", "namespace": "default"}
        obj = {"kind": "DecisionModel", "metadata": metadata, "spec": {"model": model}, "status": status}
        return self.server.put(API_VERSION, PLURAL, obj)


@pytest.fixture
async def waited(dmctl: Dmctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Waited]:
    # Nobody speaks TLS here, and reading the machine's certificates takes longer than everything else.
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    async with FakeApiServer() as server:
        yield Waited(server, dmctl)


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (DONE, 0, "ready: Ready, Ready=True Ready: serving laya:en"),
        (CACHING, 1, "under way: Caching, Caching: the prefetch Job is running"),
        (PARKED, 1, "awaiting approval: AwaitingPromotion, PromotionPending: annotate it"),
        (REFUSED, 2, "rejected: Ready, ModelNotFound: no such tag"),
        (REJECTED, 2, "rejected: RolledBack, CacheTimeout: Pod x: not found"),
    ],
)
async def test_each_ending_has_its_code_its_condition_and_what_to_do(
    waited: Waited, status: dict[str, Any], code: int, told: str
) -> None:
    waited.put("laya:en", status)
    done = await waited("router", "--timeout", "0s")

    assert done.code == code
    line, *next_step = done.out.splitlines()
    assert line == f"default/router: {told}"
    assert bool(next_step) == (code != 0)
    as_json = json.loads((await waited("router", "--timeout", "0s", "-o", "json")).out)
    assert (as_json["code"], f"{as_json['message']}") == (code, told)
    assert not waited.server.writes


async def test_what_is_ready_with_the_spec_of_before_is_not_done(waited: Waited) -> None:
    waited.put("laya:en", DONE)
    waited.put("laya:en-better", DONE, looked_at=False)
    done = await waited("router", "--timeout", "0s")

    assert done.code == 1
    assert "not looked at yet" in done.out


async def test_it_waits_through_the_changes_and_tells_them(waited: Waited) -> None:
    waited.put("laya:en", DONE, looked_at=False)
    waiting = asyncio.create_task(waited("router", "--timeout", "30s"))
    await until(lambda: waited.server.requests)
    waited.put("laya:en", CACHING)
    seen = len(waited.server.requests)
    await until(lambda: len(waited.server.requests) > seen)
    waited.put("laya:en", DONE)
    done = await waiting

    assert done.code == 0
    assert [line.partition(": ")[2] for line in done.err.splitlines()] == [
        "not looked at yet: is the reconciler running, and does it watch here?",
        "Caching, Caching: the prefetch Job is running",
        "Ready, Ready=True Ready: serving laya:en",
    ]


async def test_what_cannot_be_told_is_an_error(waited: Waited) -> None:
    absent = await waited("nobody")
    assert absent.code == 3
    assert "there is no DecisionModel default/nobody" in absent.err
    assert (await waited("router", "--timeout", "soon")).code == 3
    assert (await waited("router", "--timeout", "-1s")).code == 3
    waited.server.fail(403)
    forbidden = await waited("router")
    assert forbidden.code == 3
    assert "Reading DecisionModels has to be allowed." in forbidden.err

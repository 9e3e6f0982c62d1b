"""The process as a whole: its endpoints, its Lease, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from api.keys import LEADER_LEASE
from reconciler.driver import DriverError
from reconciler.kernel.certificates import CertificateError, CertificateFiles
from reconciler.kernel.errors import KernelError
from reconciler.kernel.health import BindAddress
from reconciler.main import _reasons
from tests.fakes.waiting import until
from tests.reconciler.controller.bed import Bed, open_bed
from tools.standin.registry import Registry

pytestmark = pytest.mark.anyio


@pytest.fixture
async def bed(registry: Registry, tmp_path: Path) -> AsyncIterator[Bed]:
    """A cluster whose reconciler is not started yet."""
    async with open_bed(registry, tmp_path) as opened:
        yield opened


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_health_and_metrics_are_served(bed: Bed) -> None:
    health, metrics = free_port(), free_port()
    bed.options = replace(
        bed.options, health=BindAddress("127.0.0.1", health), metrics=BindAddress("127.0.0.1", metrics)
    )
    bed.start()
    await bed.rolled_out()

    async with httpx2.AsyncClient(trust_env=False) as http:
        assert (await http.get(f"http://127.0.0.1:{health}/healthz")).status_code == 200
        assert (await http.get(f"http://127.0.0.1:{health}/readyz")).status_code == 200
        text = (await http.get(f"http://127.0.0.1:{metrics}/metrics")).text
    assert 'decisionmodel_phase{name="router",namespace="default",phase="Ready"} 1.0' in text
    assert 'decisionmodel_rollouts_total{name="router",namespace="default",result="promoted"} 1.0' in text
    assert 'controller_runtime_reconcile_total{controller="decisionmodel",result="success"}' in text
    assert "workqueue_depth" in text


async def test_secure_metrics_are_for_scrapers_that_the_api_server_admits(bed: Bed) -> None:
    port = free_port()
    bed.options = replace(bed.options, metrics=BindAddress("127.0.0.1", port), metrics_secure=True)
    identified = json.dumps({"status": {"authenticated": True, "user": {"username": "prometheus"}}}).encode()
    allowed = json.dumps({"status": {"allowed": True}}).encode()
    bed.server.fail(201, matches=lambda request: request.path.endswith("/tokenreviews"), body=identified)
    bed.server.fail(201, matches=lambda request: request.path.endswith("/subjectaccessreviews"), body=allowed)
    bed.start()
    await bed.rolled_out()

    async with httpx2.AsyncClient(trust_env=False, verify=False) as http:
        url = f"https://127.0.0.1:{port}/metrics"
        assert (await http.get(url)).status_code == 401
        text = (await http.get(url, headers={"Authorization": "Bearer a-token"})).text
    assert 'decisionmodel_phase{name="router",namespace="default",phase="Ready"} 1.0' in text


async def test_a_certificate_that_is_not_there_ends_the_process_at_its_start(bed: Bed, tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    bed.options = replace(
        bed.options, metrics=BindAddress("127.0.0.1", 0), metrics_secure=True, metrics_certificate=files
    )
    bed.start()
    assert bed.process is not None
    with pytest.raises(CertificateError, match=r"tls\.crt"):
        await bed.process
    bed.process = None


async def test_two_replicas_share_one_lease_and_only_its_holder_works(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "platform")
    held = {
        "kind": "Lease",
        "metadata": {"name": LEADER_LEASE, "namespace": "platform"},
        "spec": {
            "holderIdentity": "another",
            "leaseDurationSeconds": 3600,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }
    bed.server.put("coordination.k8s.io/v1", "leases", held)
    bed.options = replace(bed.options, leader_elect=True)
    bed.declare()
    bed.start()
    await until(lambda: any("/leases/" in request.path for request in bed.server.requests))
    await until(lambda: len(list(bed.parts.watched.models)) == 1)
    assert bed.server.writes == []

    bed.server.remove("coordination.k8s.io/v1", "leases", "platform", LEADER_LEASE)
    await bed.run_until(lambda: bed.status.phase == "Ready")


async def test_a_signal_ends_it_in_order(bed: Bed) -> None:
    bed.start()
    await bed.rolled_out()
    os.kill(os.getpid(), signal.SIGTERM)
    assert bed.process is not None
    async with asyncio.timeout(10):
        await bed.process


async def test_another_namespace_is_not_ours(bed: Bed) -> None:
    bed.options = replace(bed.options, namespaces=("elsewhere",))
    bed.declare()
    bed.start()
    await until(lambda: bed.server.watches == 8)
    assert bed.server.writes == []
    assert all("/namespaces/elsewhere/" in request.path for request in bed.server.requests)


def test_known_errors_are_told_in_a_sentence_and_unknown_ones_keep_their_trace() -> None:
    known = ExceptionGroup("", [KernelError("the Lease is lost"), ExceptionGroup("", [DriverError("no CLI")])])
    assert _reasons(known) == ["the Lease is lost", "no CLI"]
    with pytest.raises(ZeroDivisionError):
        _reasons(ExceptionGroup("", [ZeroDivisionError()]))

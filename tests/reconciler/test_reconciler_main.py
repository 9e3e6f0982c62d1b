"""The process as a whole: its endpoints, its Lease, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import httpx2
import pytest

from api.keys import LEADER_LEASE
from reconciler.controller.watched import PODS
from reconciler.driver import DriverError
from reconciler.kernel.certificates import CertificateError, CertificateFiles
from reconciler.kernel.connection import API_CONNECTIONS
from reconciler.kernel.errors import KernelError
from reconciler.kernel.health import BindAddress
from reconciler.kernel.lease import DEFAULT_LEASE, LeadershipLost
from reconciler.main import _allow_open_files, _reasons
from tests.fakes.apiserver import Request
from tests.fakes.ports import free_port
from tests.fakes.waiting import until
from tests.reconciler.controller.bed import Bed, open_bed
from tools.standin.registry import Registry

pytestmark = pytest.mark.anyio


@pytest.fixture
async def bed(registry: Registry, tmp_path: Path) -> AsyncIterator[Bed]:
    """A cluster whose reconciler is not started yet."""
    async with open_bed(registry, tmp_path) as opened:
        yield opened


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


def test_as_many_files_may_be_open_as_the_system_grants() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] - 1, before[1]))
    try:
        _allow_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_signal_ends_it_in_order(bed: Bed) -> None:
    bed.start()
    await bed.rolled_out()
    os.kill(os.getpid(), signal.SIGTERM)
    assert bed.process is not None
    async with asyncio.timeout(10):
        await bed.process


def holder(bed: Bed) -> str | None:
    """Return who holds the Lease, "" after a release; None when there is none."""
    lease = bed.server.object("coordination.k8s.io/v1", "leases", "platform", LEADER_LEASE)
    return None if lease is None else str(lease["spec"]["holderIdentity"])


@pytest.fixture
async def leader(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> Bed:
    """A reconciler that leads."""
    monkeypatch.setenv("POD_NAMESPACE", "platform")
    bed.options = replace(bed.options, leader_elect=True)
    bed.declare()
    bed.start()
    await bed.run_until(lambda: bed.status.phase == "Ready")
    return bed


async def test_the_engine_has_ended_before_the_lease_is_released(leader: Bed) -> None:
    holders = []
    leader.driver.on_close = lambda _: holders.append(holder(leader))
    us = holder(leader)
    os.kill(os.getpid(), signal.SIGTERM)
    assert leader.process is not None
    await asyncio.wait_for(leader.process, 10)
    assert holders[0] == us
    assert holder(leader) == ""


async def test_after_the_loss_of_the_lease_the_engine_ends_before_another_leads(leader: Bed) -> None:
    periods: list[float | None] = []
    leader.driver.on_close = periods.append
    metadata = {"name": LEADER_LEASE, "namespace": "platform"}
    taken = {"kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": "another"}}
    leader.server.put("coordination.k8s.io/v1", "leases", taken)
    assert leader.process is not None
    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(leader.process, 10)
    leader.process = None
    assert caught.group_contains(LeadershipLost)
    (seconds,) = periods
    assert seconds is not None
    assert DEFAULT_LEASE.renew_deadline + seconds < DEFAULT_LEASE.duration


async def test_the_lease_does_not_wait_for_other_requests(leader: Bed) -> None:
    def slow(request: Request) -> bool:
        return "/pods/slow-" in request.path

    leader.server.hang(matches=slow)
    waiting = [asyncio.create_task(leader.parts.client.get(PODS, "default", f"slow-{n}")) for n in range(40)]
    await until(lambda: sum(map(slow, leader.server.requests)) >= API_CONNECTIONS)
    leader.server.remove("coordination.k8s.io/v1", "leases", "platform", LEADER_LEASE)
    await until(lambda: holder(leader) is not None)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


HANGING_CLI = """#!/bin/sh
touch "{directory}/asked"
exec cat "{directory}/pipe"
"""


async def test_a_signal_before_it_works_ends_it_at_once(bed: Bed, tmp_path: Path) -> None:
    """Process 1 of a container is not ended by a signal that it has no answer to."""
    cli, pipe = tmp_path / "pulumi", tmp_path / "pipe"
    cli.write_text(HANGING_CLI.format(directory=tmp_path))
    cli.chmod(0o755)
    os.mkfifo(pipe)
    plugin = tmp_path / f"plugins/resource-kubernetes-v{version('pulumi-kubernetes')}/pulumi-resource-kubernetes"
    plugin.parent.mkdir(parents=True)
    plugin.touch(0o755)
    options = {
        "--kubeconfig": bed.kubeconfig,
        "--pulumi": cli,
        "--pulumi-home": tmp_path,
        "--state-backend": f"file://{tmp_path}/state",
        "--work-directory": tmp_path / "work",
        "--health-probe-bind-address": "0",
    }
    flags = [f"{name}={value}" for name, value in options.items()]
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "reconciler.main", *flags)
    await until((tmp_path / "asked").exists, 60)
    process.terminate()
    assert await asyncio.wait_for(process.wait(), 60) == 128 + signal.SIGTERM
    with contextlib.suppress(OSError):  # in a container its CLI ends with it, here with the end of the pipe
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))


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
    assert _reasons(OSError("the disk is full")) == ["the disk is full"]
    with pytest.raises(ZeroDivisionError):
        _reasons(ExceptionGroup("", [ZeroDivisionError()]))

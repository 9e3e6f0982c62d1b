"""The driver with the real CLI over a bucket, whatever happens to it: nothing is lost, and every failure has a name."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from reconciler.driver import FailureReason, OperationKind, StackDriver
from reconciler.driver import backend_layout as layout
from tests.reconciler.driver import driver_programs
from tests.reconciler.driver.conftest import make_operation, until
from tests.reconciler.driver.real_engine import STACK, Engine, reason_of, up

pytestmark = pytest.mark.cluster

NAME = "states"
STATE = f"{layout.stacks_directory('decisionmodel')}/{STACK}.json.gz"
LOCKS = layout.locks_directory("decisionmodel", STACK)
HISTORY = layout.history_directory("decisionmodel", STACK)


@dataclass
class Bucket:
    """A bucket whose server can go away and come back with everything in it."""

    server: ThreadedMotoServer
    port: int

    @property
    def backend_url(self) -> str:
        return f"s3://{NAME}?endpoint=127.0.0.1:{self.port}&disableSSL=true&s3ForcePathStyle=true&region=us-east-1"

    @property
    def client(self) -> Any:
        return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self.port}", region_name="us-east-1")

    def keys(self, directory: str) -> list[str]:
        found = self.client.list_objects_v2(Bucket=NAME, Prefix=f"{directory}/")
        return [each["Key"] for each in found.get("Contents", ())]

    def put(self, key: str, data: bytes) -> None:
        self.client.put_object(Bucket=NAME, Key=key, Body=data)

    def get(self, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=NAME, Key=key)["Body"].read())

    def go_away(self) -> None:
        self.server.stop()

    def come_back(self) -> None:
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)
        self.server.start()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    bucket = Bucket(server, server.get_host_and_port()[1])
    reset = f"http://127.0.0.1:{bucket.port}/moto-api/reset"
    # What an earlier test has left is in this process's memory.
    urllib.request.urlopen(urllib.request.Request(reset, method="POST")).close()
    bucket.client.create_bucket(Bucket=NAME)
    yield bucket
    bucket.server.stop()


@pytest.fixture
def engine(tmp_path: Path, bucket: Bucket) -> Engine:
    return Engine(tmp_path, bucket.backend_url)


def test_a_stack_lives_in_a_bucket_with_a_bounded_history_and_leaves_nothing(engine: Engine, bucket: Bucket) -> None:
    async def use(driver: StackDriver) -> None:
        assert (await driver.run(up(2))).changes == {"create": 3}
        assert (await driver.run(up(2))).changes == {"same": 3}
        assert (await driver.run(up(1))).failure is None
        assert await driver.stacks() == (STACK,)
        assert len(bucket.keys(HISTORY)) == 2 * 2
        assert (await driver.run(make_operation(OperationKind.REMOVE))).failure is None
        assert await driver.stacks() == ()

    engine.run(use, history_entries=2)
    assert [key for key in bucket.keys(".pulumi") if STACK in key] == []


def test_a_lock_of_a_dead_pod_is_deleted_and_told(
    engine: Engine, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    engine.up(1)
    lock = {"pid": 7, "username": "x", "hostname": "pod-that-is-gone", "timestamp": "2026-05-01T10:00:00Z"}
    bucket.put(f"{LOCKS}/0c7b1ac3.json", json.dumps(lock).encode())
    outcome = engine.up(2)
    assert outcome.failure is None
    assert outcome.changes == {"create": 1, "same": 2}
    assert f"stack {STACK}: delete the locks of dead processes" in caplog.text
    assert bucket.keys(LOCKS) == []


def test_a_corrupt_state_harms_no_other_and_goes_with_its_stack(engine: Engine, bucket: Bucket) -> None:
    engine.up(1)
    bucket.put(STATE, b"garbage")

    async def use(driver: StackDriver) -> None:
        assert reason_of(await driver.run(up(1))) is FailureReason.STATE_CORRUPT
        assert bucket.get(STATE) == b"garbage"
        other = make_operation(stack="other", program=partial(driver_programs.declare_components, 1))
        assert (await driver.run(other)).failure is None
        assert await driver.stacks() == ("other", STACK)
        assert (await driver.run(make_operation(OperationKind.REMOVE))).failure is None
        assert await driver.stacks() == ("other",)

    engine.run(use)


def test_a_bucket_that_is_away_for_a_while_fails_by_name_and_nothing_is_lost(engine: Engine, bucket: Bucket) -> None:
    async def use(driver: StackDriver) -> None:
        assert (await driver.run(up(2))).failure is None
        bucket.go_away()
        assert reason_of(await driver.run(up(3))) is FailureReason.BACKEND_UNREACHABLE
        bucket.come_back()
        assert (await driver.run(up(3))).changes == {"create": 1, "same": 3}

    engine.run(use)


def test_a_bucket_that_goes_away_in_mid_operation_is_recovered_from(
    engine: Engine, bucket: Bucket, tmp_path: Path
) -> None:
    running, go = tmp_path / "running", tmp_path / "go"

    async def use(driver: StackDriver) -> None:
        assert (await driver.run(up(2))).failure is None
        program = partial(driver_programs.declare_components_when_told, 3, running, go)
        operation = asyncio.create_task(driver.run(make_operation(program=program, deadline_seconds=12)))
        await until(running.exists)
        bucket.go_away()
        go.touch()
        broken = await operation
        assert reason_of(broken) in {FailureReason.BACKEND_UNREACHABLE, FailureReason.DEADLINE_EXCEEDED}
        bucket.come_back()
        after = await driver.run(up(3))
        assert after.failure is None
        assert sum(after.changes.values()) == 4

    engine.run(use, grace_seconds=1)
    assert bucket.keys(LOCKS) == []


def test_a_second_writer_is_refused_while_the_first_one_lives(engine: Engine, bucket: Bucket, tmp_path: Path) -> None:
    running, go = tmp_path / "running", tmp_path / "go"
    second = Engine(tmp_path / "second", bucket.backend_url)

    async def use(driver: StackDriver) -> None:
        program = partial(driver_programs.declare_components_when_told, 2, running, go)
        first = asyncio.create_task(driver.run(make_operation(program=program)))
        await until(running.exists)
        refused = await asyncio.to_thread(second.up, 1)
        assert reason_of(refused) is FailureReason.LOCKED
        go.touch()
        assert (await first).changes == {"create": 3}

    engine.run(use)
    assert second.up(2).changes == {"same": 3}

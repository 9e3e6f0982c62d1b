"""The states of a backend while others work on it, and when the one who looks is interrupted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.driver.backend_files import DirectoryFiles
from reconciler.driver.errors import BackendFilesError
from reconciler.driver.states import States
from tests.reconciler.driver.conftest import StandIn, exists, until

STACK = "shop.fraud.1a2b3c4d"
LOCK = '{"pid": 7, "hostname": "some-pod", "timestamp": "2026-05-01T10:00:00Z"}'


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The root of a backend."""
    return tmp_path / "state"


@pytest.fixture
def opened(stand_in: StandIn, state: Path, tmp_path: Path) -> States:
    """The states of that backend, through the stand-in CLI."""
    return States(replace(stand_in.settings, backend_url=f"file://{state}", work_directory=tmp_path / "work"))


@pytest.fixture
def locks(state: Path) -> Path:
    """Two locks of the stack."""
    directory = state / ".pulumi/locks/organization/decisionmodel" / STACK
    directory.mkdir(parents=True)
    for name in ("a.json", "b.json"):
        (directory / name).write_text(LOCK)
    return directory


def test_a_lock_released_while_it_is_looked_at_is_left_out(
    stand_in: StandIn, opened: States, locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = DirectoryFiles.read

    def released_before(files: DirectoryFiles, path: str) -> bytes:
        if path.endswith("/a.json"):
            (locks / "a.json").unlink()
        return read(files, path)

    monkeypatch.setattr(DirectoryFiles, "read", released_before)
    (owner,) = stand_in.runner.run(opened.locks(STACK))
    assert owner is not None
    assert owner.host == "some-pod"


def test_a_lock_that_is_there_and_cannot_be_read_is_an_error(
    stand_in: StandIn, opened: States, locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: DirectoryFiles, path: str) -> bytes:
        raise BackendFilesError(f"{path}: Input/output error")

    monkeypatch.setattr(DirectoryFiles, "read", refuse)
    with pytest.raises(BackendFilesError):
        stand_in.runner.run(opened.locks(STACK))


def test_a_stack_without_a_directory_of_locks_has_none(stand_in: StandIn, opened: States) -> None:
    assert stand_in.runner.run(opened.locks(STACK)) == ()


def test_whoever_is_interrupted_waits_until_the_cli_has_saved_the_state(stand_in: StandIn, opened: States) -> None:
    """As by Ctrl-C, which the CLI in its own session does not hear."""
    stand_in.answers(cancel=[{"wait_for": "never", "exit_on_sigterm": 8, "provider": True}])

    async def interrupt() -> None:
        working = asyncio.create_task(opened.unlock(STACK))
        await until((stand_in.directory / "never.waiting").exists)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        (call,) = stand_in.calls()
        assert not exists(call["pid"])
        assert not exists(int((stand_in.directory / "provider.pid").read_text()))
        assert (stand_in.directory / "saved").exists()

    stand_in.runner.run(interrupt())

"""The driver against a scripted CLI: arguments, environment, events, deadlines, signals, recovery, lost processes."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reconciler.driver import (
    BackendQueryError,
    DriverClosedError,
    FailureReason,
    IncompatibleToolError,
    Operation,
    OperationKind,
    Outcome,
    StackDriver,
    UnpicklableProgramError,
    housekeeping,
)
from reconciler.driver.errors import WorkerLostError
from tests.reconciler.driver import driver_programs
from tests.reconciler.driver.conftest import StandIn, exists, make_operation, until, workers

URN = "urn:pulumi:shop.fraud.1a2b3c4d::decisionmodel::kubernetes:core/v1:Service::fraud"


def step_event(kind: str, op: str, **metadata: Any) -> dict[str, Any]:
    return {kind: {"metadata": {"op": op, "urn": URN, "type": "kubernetes:core/v1:Service", **metadata}}}


def lock_message(*owners: str) -> str:
    lines = "".join(f"\n  file:///state/{number}.json: created by {owner}" for number, owner in enumerate(owners))
    return (
        f"error: the stack is currently locked by {len(owners)} lock(s). Either wait for the other process(es) to end "
        f"or delete the lock file with `pulumi cancel`.{lines}\n"
    )


def reason_of(outcome: Outcome) -> FailureReason | None:
    return outcome.failure.reason if outcome.failure else None


def run_one(stand_in: StandIn, operation: Operation, **changes: Any) -> Outcome:
    if changes:
        return stand_in.run_fresh(lambda driver: driver.run(operation), **changes)
    return stand_in.run(lambda driver: driver.run(operation))


@pytest.mark.parametrize(
    ("kind", "command", "flags"),
    [
        (OperationKind.UP, "up", {"--yes", "--skip-preview"}),
        (OperationKind.REFRESH_UP, "up", {"--yes", "--skip-preview", "--refresh"}),
        (OperationKind.PREVIEW, "preview", set()),
        (OperationKind.DESTROY, "destroy", {"--yes", "--skip-preview"}),
        (OperationKind.REMOVE, "stack rm", {"--yes", "--force"}),
    ],
)
def test_an_operation_is_one_process_with_these_flags(
    stand_in: StandIn, kind: OperationKind, command: str, flags: set[str]
) -> None:
    outcome = run_one(stand_in, make_operation(kind))
    assert outcome.failure is None
    (call,) = stand_in.calls()
    assert call["command"] == command
    decisive = {"--yes", "--skip-preview", "--refresh", "--force", "--target", "--exclude", "--continue-on-error"}
    assert set(call["argv"]) & decisive == flags
    assert call["argv"][call["argv"].index("--stack") + 1] == "shop.fraud.1a2b3c4d"
    assert "--non-interactive" in call["argv"]


def test_the_cli_sees_the_settings_and_nothing_of_ours_that_it_does_not_need(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ca.pem")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    run_one(stand_in, make_operation())
    (call,) = stand_in.calls()
    environment = call["environment"]
    assert environment["SSL_CERT_FILE"] == "/etc/ca.pem"
    assert "AWS_SECRET_ACCESS_KEY" not in environment
    assert environment["PULUMI_BACKEND_URL"] == f"{stand_in.settings.backend_url}?metadata=skip"
    assert environment["PULUMI_HOME"] == str(stand_in.settings.pulumi_home)
    assert "PULUMI_K8S_DELETE_UNREACHABLE" not in environment
    assert environment["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] == "true"
    assert call["session"] == call["pid"]
    assert Path(call["directory"], "Pulumi.yaml").read_text() == "name: decisionmodel\nruntime: python\n"


def test_the_outcome_is_read_from_the_event_stream(stand_in: StandIn) -> None:
    events = [
        {"diagnosticEvent": {"severity": "debug", "message": "noise"}},
        "this is no event",
        step_event("resourcePreEvent", "update", detailedDiff={"spec.selector.revision": {"diffKind": "update"}}),
        step_event("resOutputsEvent", "update", detailedDiff=None, diffs=["spec"]),
        {"somethingNew": {}},
        {"summaryEvent": {"resourceChanges": {"update": 1, "same": 7}}},
        {"cancelEvent": {}},
    ]
    stand_in.answers(up=[{"events": events}])
    outcome = run_one(stand_in, make_operation())
    assert outcome.failure is None
    assert outcome.changes == {"update": 1, "same": 7}
    (change,) = outcome.resources
    assert (change.name, change.op, change.urn) == ("fraud", "update", URN)
    assert change.changed_paths == ("spec", "spec.selector.revision")


def test_a_failed_operation_still_says_what_it_changed(stand_in: StandIn) -> None:
    events = [
        step_event("resourcePreEvent", "create"),
        {
            "diagnosticEvent": {
                "severity": "error",
                "urn": URN,
                "message": 'Service "fraud" is invalid: spec.ports: Required value',
            }
        },
        step_event("resOpFailedEvent", "create"),
    ]
    stand_in.answers(up=[{"events": events, "exit": 255}])
    outcome = run_one(stand_in, make_operation())
    assert outcome.failure is not None
    assert outcome.failure.reason is FailureReason.INVALID_OBJECT
    assert outcome.failure.urn == URN
    assert [change.op for change in outcome.resources] == ["create"]


def test_a_program_that_cannot_be_loaded_fails_before_any_process(stand_in: StandIn) -> None:
    operation = make_operation(program=VanishingProgram())
    assert reason_of(run_one(stand_in, operation)) is FailureReason.PROGRAM_ERROR
    assert stand_in.calls() == []


class VanishingProgram:
    """Pickles, but not back."""

    def __call__(self) -> None: ...

    def __reduce__(self) -> tuple[Any, ...]:
        return (__import__, ("no_such_module_anywhere",))


def test_a_program_that_does_not_pickle_is_the_callers_mistake(stand_in: StandIn) -> None:
    with pytest.raises(UnpicklableProgramError):
        run_one(stand_in, make_operation(program=lambda: None))


# --- deadlines, signals, cancellation


def test_the_deadline_ends_an_operation(stand_in: StandIn) -> None:
    stand_in.answers(up=[{"wait_for": "never"}])
    outcome = run_one(stand_in, make_operation(deadline_seconds=0.3))
    assert reason_of(outcome) is FailureReason.DEADLINE_EXCEEDED
    assert not any(exists(call["pid"]) for call in stand_in.calls())


def test_a_cli_deaf_to_sigterm_is_killed_with_its_provider(stand_in: StandIn) -> None:
    stand_in.answers(up=[{"wait_for": "never", "ignore_sigterm": True, "provider": True}, {}])

    async def use(driver: StackDriver) -> None:
        deaf = asyncio.create_task(driver.run(make_operation()))
        await until((stand_in.directory / "never.waiting").exists)
        deaf.cancel()
        await driver.run(make_operation())

    stand_in.run(use)
    assert not exists(stand_in.calls()[0]["pid"])
    assert not exists(int((stand_in.directory / "provider.pid").read_text()))


def test_a_killed_cli_leaves_no_provider(stand_in: StandIn) -> None:
    stand_in.answers(up=[{"provider": True, "kill_self": True}])
    outcome = run_one(stand_in, make_operation())
    assert reason_of(outcome) is FailureReason.INTERRUPTED
    assert not exists(int((stand_in.directory / "provider.pid").read_text()))


def test_cancelling_a_call_stops_its_operation_before_the_next_on_that_stack(stand_in: StandIn) -> None:
    stand_in.answers(up=[{"wait_for": "never", "exit_on_sigterm": 8}, {}])

    async def use(driver: StackDriver) -> Outcome:
        first = asyncio.create_task(driver.run(make_operation()))
        await until((stand_in.directory / "never.waiting").exists)
        first.cancel()
        second = await driver.run(make_operation())
        assert first.cancelled()
        assert not exists(stand_in.calls()[0]["pid"])
        return second

    assert stand_in.run(use).failure is None
    assert stand_in.commands() == ["up", "up"]


def test_a_call_cancelled_in_the_queue_never_starts_a_process(stand_in: StandIn) -> None:
    stand_in.answers(up=[{"wait_for": "go"}])

    async def use(driver: StackDriver) -> None:
        first = asyncio.create_task(driver.run(make_operation()))
        await until((stand_in.directory / "go.waiting").exists)
        second = asyncio.create_task(driver.run(make_operation(stack="other")))
        await asyncio.sleep(0)
        second.cancel()
        (stand_in.directory / "go").touch()
        assert (await first).failure is None
        await driver.run(make_operation(OperationKind.DESTROY, stack="other"))
        assert second.cancelled()

    stand_in.run(use)
    assert stand_in.commands() == ["up", "destroy"]


def test_closing_lets_running_operations_end(stand_in: StandIn) -> None:
    others, own = workers(), set[int]()
    stand_in.answers(up=[{"wait_for": "go"}])

    async def use(driver: StackDriver) -> Outcome:
        running = asyncio.create_task(driver.run(make_operation()))
        await until((stand_in.directory / "go.waiting").exists)
        own.update(workers() - others)
        closing = asyncio.create_task(driver.close(grace_seconds=20))
        await asyncio.sleep(0)
        with pytest.raises(DriverClosedError):
            await driver.run(make_operation(stack="late"))
        (stand_in.directory / "go").touch()
        await closing
        return await running

    assert stand_in.run_fresh(use).failure is None
    assert own
    assert not any(map(exists, own | {call["pid"] for call in stand_in.calls()}))


def test_closing_stops_what_outlives_the_grace(stand_in: StandIn) -> None:
    others, own = workers(), set[int]()
    stand_in.answers(up=[{"wait_for": "never", "exit_on_sigterm": 8}])

    async def use(driver: StackDriver) -> Outcome:
        running = asyncio.create_task(driver.run(make_operation()))
        await until((stand_in.directory / "never.waiting").exists)
        own.update(workers() - others)
        await driver.close(grace_seconds=0)
        return await running

    assert reason_of(stand_in.run_fresh(use)) is FailureReason.INTERRUPTED
    assert own
    assert not any(map(exists, own | {call["pid"] for call in stand_in.calls()}))


def test_closing_waits_for_what_cancelled_calls_left_running(stand_in: StandIn) -> None:
    """Whoever releases the Lease after that leaves no writer behind."""
    stand_in.answers(up=[{"wait_for": "never", "ignore_sigterm": True}])

    async def use(driver: StackDriver) -> None:
        running = asyncio.create_task(driver.run(make_operation()))
        await until((stand_in.directory / "never.waiting").exists)
        running.cancel()
        await asyncio.wait([running])
        (call,) = stand_in.calls()
        assert exists(call["pid"])
        await driver.close(grace_seconds=0)
        assert not exists(call["pid"])

    stand_in.run_fresh(use)


def test_closing_again_hurries_what_is_being_stopped(stand_in: StandIn) -> None:
    """A Lease may be lost while a clean end waits for the engine."""
    stand_in.answers(up=[{"wait_for": "never", "ignore_sigterm": True}])

    async def use(driver: StackDriver) -> Outcome:
        running = asyncio.create_task(driver.run(make_operation()))
        await until((stand_in.directory / "never.waiting").exists)
        closing = asyncio.create_task(driver.close(grace_seconds=0))
        await asyncio.sleep(0)
        await asyncio.wait_for(driver.close(0, save_seconds=0.1), 10)
        await closing
        return await running

    assert reason_of(stand_in.run_fresh(use, grace_seconds=30)) is FailureReason.INTERRUPTED
    assert not any(exists(call["pid"]) for call in stand_in.calls())


def test_what_is_stopped_leaves_old_history_to_the_next_operation(stand_in: StandIn, states: Path) -> None:
    stack = "shop.fraud.1a2b3c4d"
    (states / f"{stack}.json").touch()
    history = states.parents[1] / "history/decisionmodel" / stack
    history.mkdir(parents=True)
    for time in range(5):
        (history / f"{stack}-{time}.history.json.gz").touch()
    stand_in.answers(up=[{"wait_for": "never", "exit_on_sigterm": 8}])

    async def use(driver: StackDriver) -> None:
        running = asyncio.create_task(driver.run(make_operation()))
        await until((stand_in.directory / "never.waiting").exists)
        await driver.close(grace_seconds=0)
        await running

    stand_in.run_fresh(use)
    assert len(names(history)) == 5


def test_what_is_stopped_while_its_program_is_loaded_starts_no_process(stand_in: StandIn, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    async def use(driver: StackDriver) -> Outcome:
        running = asyncio.create_task(driver.run(make_operation(program=SlowlyLoadedProgram(gate))))
        # Opens once the worker has begun to load.
        opened = await asyncio.to_thread(gate.open, "w")
        closing = asyncio.create_task(driver.close(grace_seconds=0))
        await asyncio.sleep(0)
        with no_cli(stand_in):
            opened.close()
            await closing
        return await running

    assert reason_of(stand_in.run_fresh(use)) is FailureReason.INTERRUPTED


class SlowlyLoadedProgram:
    """Comes back from its pickle once somebody has opened and closed the gate."""

    def __init__(self, gate: Path) -> None:
        self.gate = gate

    def __call__(self) -> None: ...

    def __reduce__(self) -> tuple[Any, ...]:
        return driver_programs.load_after, (self.gate,)


def test_a_driver_that_was_not_started_refuses(stand_in: StandIn) -> None:
    with pytest.raises(DriverClosedError):
        stand_in.runner.run(StackDriver(stand_in.settings).run(make_operation()))


# --- order and concurrency


def test_operations_on_one_stack_never_overlap_and_keep_their_order(stand_in: StandIn) -> None:
    async def use(driver: StackDriver) -> None:
        kinds = [OperationKind.PREVIEW, OperationKind.UP, OperationKind.DESTROY, OperationKind.REMOVE]
        await asyncio.gather(*(driver.run(make_operation(kind)) for kind in kinds))

    stand_in.run_fresh(use, workers=2)
    assert stand_in.commands() == ["preview", "up", "destroy", "stack rm"]


def test_stacks_run_side_by_side_up_to_the_pool(stand_in: StandIn) -> None:
    stand_in.answers(up=[{"wait_for": "go"}])

    async def use(driver: StackDriver) -> None:
        running = [asyncio.create_task(driver.run(make_operation(stack=f"stack-{number}"))) for number in range(3)]
        await until(lambda: len(stand_in.calls()) == 2)
        (stand_in.directory / "go").touch()
        await asyncio.gather(*running)

    stand_in.run_fresh(use, workers=2)
    stacks = [call["argv"][call["argv"].index("--stack") + 1] for call in stand_in.calls()]
    assert set(stacks[:2]) == {"stack-0", "stack-1"}
    assert stacks[2] == "stack-2"


def test_who_is_in_a_hurry_goes_before_who_waits(stand_in: StandIn) -> None:
    stand_in.answers(up=[{"wait_for": "go"}, {}])

    async def use(driver: StackDriver) -> None:
        running = [asyncio.create_task(driver.run(make_operation(stack="first")))]
        await until((stand_in.directory / "go.waiting").exists)
        for stack, urgent in (("calm", False), ("urgent", True), ("calmer", False), ("also-urgent", True)):
            running.append(asyncio.create_task(driver.run(make_operation(stack=stack, urgent=urgent))))
            await asyncio.sleep(0)
        (stand_in.directory / "go").touch()
        await asyncio.gather(*running)

    stand_in.run(use)
    order = [call["argv"][call["argv"].index("--stack") + 1] for call in stand_in.calls()]
    assert order == ["first", "urgent", "also-urgent", "calm", "calmer"]


# --- workers


def test_a_worker_that_dies_with_the_program_is_replaced(stand_in: StandIn) -> None:
    async def use(driver: StackDriver) -> tuple[Outcome, Outcome]:
        (worker,) = workers()
        stand_in.answers(up=[{"wait_for": "go"}, {}])
        first = asyncio.create_task(driver.run(make_operation()))
        await until((stand_in.directory / "go.waiting").exists)
        os.kill(worker, signal.SIGKILL)
        (stand_in.directory / "go").touch()
        return await first, await driver.run(make_operation())

    first, second = stand_in.run(use)
    assert reason_of(first) is FailureReason.INTERRUPTED
    assert second.failure is None


def test_a_worker_that_died_while_idle_goes_unnoticed(stand_in: StandIn) -> None:
    async def use(driver: StackDriver) -> Outcome:
        (worker,) = workers()
        os.kill(worker, signal.SIGKILL)
        await until(lambda: not exists(worker))
        return await driver.run(make_operation())

    assert stand_in.run(use).failure is None


def test_a_worker_whose_cli_was_killed_is_not_used_again(stand_in: StandIn) -> None:
    """Its program may still wait for the dead engine, and would fail the next operation."""
    stand_in.answers(up=[{"kill_self": True}, {}])

    async def use(driver: StackDriver) -> tuple[Outcome, Outcome, bool]:
        (worker,) = workers()
        return await driver.run(make_operation()), await driver.run(make_operation()), exists(worker)

    killed, following, still_there = stand_in.run(use)
    assert reason_of(killed) is FailureReason.INTERRUPTED
    assert following.failure is None
    assert not still_there


def test_workers_are_recycled_after_their_share(stand_in: StandIn) -> None:
    others = workers()

    async def use(driver: StackDriver) -> list[int]:
        seen: list[int] = []
        for _ in range(3):
            await until(lambda: len(workers() - others) == 1)
            seen += workers() - others
            assert (await driver.run(make_operation())).failure is None
        return seen

    first, second, third = stand_in.run_fresh(use, operations_per_worker=2)
    assert first == second != third


def test_a_worker_that_cannot_start_fails_the_start(stand_in: StandIn) -> None:
    with pytest.raises(WorkerLostError, match="did not start"):
        run_one(stand_in, make_operation(), preload=("no_such_module_anywhere",))


# --- recovery


def test_a_missing_stack_is_created_once_and_the_operation_tried_again(stand_in: StandIn) -> None:
    stand_in.answers(up=[{"exit": 6, "stderr": "error: no stack named 'shop.fraud.1a2b3c4d' found"}, {}])
    assert run_one(stand_in, make_operation()).failure is None
    assert stand_in.commands() == ["up", "stack init", "up"]


def test_a_stack_that_stays_missing_ends_in_a_failure(stand_in: StandIn) -> None:
    stand_in.answers(up=[{"exit": 6, "stderr": "error: no stack named 'x' found"}])
    assert run_one(stand_in, make_operation()).failure is not None
    assert stand_in.commands() == ["up", "stack init", "up"]


@pytest.mark.parametrize(
    ("files", "commands"),
    [
        ([], ["stack init", "up"]),
        (["shop.fraud.1a2b3c4d.json"], ["up"]),
        (["shop.fraud.1a2b3c4d.json.gz"], ["up"]),
        (["shop.fraud.1a2b3c4d.json.bak", "shop.fraud.json"], ["stack init", "up"]),
    ],
)
def test_a_stack_whose_file_is_missing_is_created_without_a_first_try(
    stand_in: StandIn, states: Path, files: list[str], commands: list[str]
) -> None:
    for name in files:
        (states / name).touch()
    assert run_one(stand_in, make_operation()).failure is None
    assert stand_in.commands() == commands


def test_a_stack_that_cannot_be_created_is_a_failure(stand_in: StandIn, states: Path) -> None:
    stand_in.answers(stack_init=[{"exit": 255, "stderr": "error: read-only file system"}])
    outcome = run_one(stand_in, make_operation())
    assert reason_of(outcome) is FailureReason.BACKEND_UNREACHABLE
    assert stand_in.commands() == ["stack init"]


@pytest.mark.parametrize("kind", [OperationKind.DESTROY, OperationKind.REMOVE])
def test_nothing_to_destroy_is_a_success(stand_in: StandIn, kind: OperationKind) -> None:
    missing = [{"exit": 6, "stderr": "error: no stack named 'x' found"}]
    stand_in.answers(destroy=missing, stack_rm=missing)
    assert run_one(stand_in, make_operation(kind)).failure is None
    assert len(stand_in.calls()) == 1


@pytest.mark.parametrize(
    "owner",
    ["nonroot@a-pod-of-before (pid 7) at 2026-05-01T10:00:00Z", "nonroot@{here} (pid 4194399) at 2026-05-01T10:00:00Z"],
)
def test_a_dead_processs_lock_is_cancelled_and_the_operation_tried_again(stand_in: StandIn, owner: str) -> None:
    held = lock_message(owner.format(here=socket.gethostname()))
    stand_in.answers(up=[{"exit": 255, "stderr": held}, {}])
    assert run_one(stand_in, make_operation()).failure is None
    assert stand_in.commands() == ["up", "cancel", "up"]


def test_a_living_processs_lock_is_left_alone(stand_in: StandIn) -> None:
    owner = f"root@{socket.gethostname()} (pid {os.getpid()}) at 2999-01-01T00:00:00Z"
    stand_in.answers(up=[{"exit": 255, "stderr": lock_message(owner)}])
    assert reason_of(run_one(stand_in, make_operation())) is FailureReason.LOCKED
    assert stand_in.commands() == ["up"]


def test_a_pid_that_is_younger_than_the_lock_is_not_its_owner(stand_in: StandIn) -> None:
    owner = f"root@{socket.gethostname()} (pid {os.getpid()}) at 2001-01-01T00:00:00Z"
    stand_in.answers(up=[{"exit": 255, "stderr": lock_message(owner)}, {}])
    assert run_one(stand_in, make_operation()).failure is None


def test_one_living_owner_among_dead_ones_keeps_all_locks(stand_in: StandIn) -> None:
    living = f"root@{socket.gethostname()} (pid {os.getpid()}) at 2999-01-01T00:00:00Z"
    held = lock_message("nonroot@gone (pid 7) at 2026-05-01T10:00:00Z", living)
    stand_in.answers(up=[{"exit": 255, "stderr": held}])
    assert reason_of(run_one(stand_in, make_operation())) is FailureReason.LOCKED


def test_a_lock_that_comes_back_is_not_fought_over(stand_in: StandIn) -> None:
    stand_in.answers(up=[{"exit": 255, "stderr": lock_message("nonroot@gone (pid 7) at 2026-05-01T10:00:00Z")}])
    assert reason_of(run_one(stand_in, make_operation())) is FailureReason.LOCKED
    assert stand_in.commands() == ["up", "cancel", "up"]


PENDING = {
    "diagnosticEvent": {
        "severity": "warning",
        "message": "Attempting to deploy or update resources with 1 pending operations from previous deployment.\n",
    }
}


def test_pending_creates_are_cleared_after_a_success(stand_in: StandIn) -> None:
    stand_in.answers(up=[{"events": [PENDING]}])
    assert run_one(stand_in, make_operation()).failure is None
    assert stand_in.commands() == ["up", "refresh"]
    assert "--clear-pending-creates" in stand_in.calls()[1]["argv"]


def test_pending_creates_are_cleared_before_a_second_try(stand_in: StandIn) -> None:
    stand_in.answers(up=[{"events": [PENDING], "exit": 255, "stderr": "error: something"}, {}])
    assert run_one(stand_in, make_operation()).failure is None
    assert stand_in.commands() == ["up", "refresh", "up"]


def test_pending_creates_that_stay_have_their_own_reason(stand_in: StandIn) -> None:
    stand_in.answers(up=[{"events": [PENDING]}], refresh=[{"exit": 255, "stderr": "error: cannot clear"}])
    assert reason_of(run_one(stand_in, make_operation())) is FailureReason.PENDING_OPERATIONS


# --- leftovers


def test_garbage_of_every_kind_ends_in_a_bounded_failure(stand_in: StandIn) -> None:
    stand_in.answers(up=[{"exit": 3, "stderr": "\x1b[31m\x00" + "x" * 200_000, "stdout": "y" * 200_000}])
    outcome = run_one(stand_in, make_operation())
    assert outcome.failure is not None
    assert outcome.failure.reason is FailureReason.UNKNOWN
    assert len(outcome.failure.message) <= 1024


def test_temporary_directories_go_with_their_operation(stand_in: StandIn) -> None:
    run_one(stand_in, make_operation())
    (call,) = stand_in.calls()
    temporary = Path(call["environment"]["TMPDIR"])
    assert temporary.parent == stand_in.settings.temporary_directory
    assert list(stand_in.settings.temporary_directory.iterdir()) == []


def test_half_written_files_stay_until_the_first_operation(stand_in: StandIn, states: Path) -> None:
    """Only who holds the Lease operates; before that, another may be writing them."""
    remains = [states / name for name in ("a.json.gz.attrs", "a.json.gz.18a.tmp")]
    for file in remains:
        file.touch()

    async def use(driver: StackDriver) -> None:
        assert await driver.stacks() == ()
        assert all(file.exists() for file in remains)
        await asyncio.gather(*(driver.run(make_operation(stack=name)) for name in ("a", "b")))
        assert not any(file.exists() for file in remains)
        remains[0].touch()
        await driver.run(make_operation(stack="a"))
        assert remains[0].exists()

    stand_in.run_fresh(use, workers=2)


# --- a machine at its limits


def refuse(number: int) -> Callable[..., Any]:
    """Stand in for a call that the machine refuses."""

    def fail(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


@contextmanager
def no_cli(stand_in: StandIn) -> Iterator[None]:
    """Keep the CLI from being started."""
    elsewhere = stand_in.settings.pulumi.with_suffix(".away")
    stand_in.settings.pulumi.rename(elsewhere)
    try:
        yield
    finally:
        elsewhere.rename(stand_in.settings.pulumi)


@contextmanager
def full_disk(_: StandIn) -> Iterator[None]:
    """Keep temporary directories from being made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(housekeeping, "mkdtemp", refuse(errno.ENOSPC))
        yield


@pytest.mark.parametrize("trouble", [full_disk, no_cli])
def test_what_the_machine_refuses_is_a_failure_that_may_pass(
    stand_in: StandIn, trouble: Callable[[StandIn], AbstractContextManager[None]]
) -> None:
    async def use(driver: StackDriver) -> tuple[Outcome, Outcome]:
        with trouble(stand_in):
            refused = await driver.run(make_operation())
        return refused, await driver.run(make_operation())

    refused, after = stand_in.run(use)
    assert refused.failure is not None
    assert refused.failure.reason.retryable
    assert "the machine refused" in refused.failure.message
    assert after.failure is None


def test_a_worker_that_the_machine_refuses_is_a_failure_that_may_pass(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(driver: StackDriver) -> tuple[Outcome, Outcome]:
        (worker,) = workers()
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "create_subprocess_exec", refuse(errno.EAGAIN))
            os.kill(worker, signal.SIGKILL)
            await until(lambda: not exists(worker))
            refused = await driver.run(make_operation())
        # The pool has tried again at once, in vain; the one after that finds a worker.
        await driver.run(make_operation())
        return refused, await driver.run(make_operation())

    refused, after = stand_in.run(use)
    assert reason_of(refused) is FailureReason.INTERRUPTED
    assert after.failure is None


def test_a_backend_that_cannot_be_looked_at_is_left_to_the_cli(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "is_dir", refuse(errno.EIO))
    assert run_one(stand_in, make_operation()).failure is None
    assert stand_in.commands() == ["up"]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_history_is_pruned_after_what_writes_it(stand_in: StandIn, states: Path) -> None:
    stack = "shop.fraud.1a2b3c4d"
    history = states.parents[1] / "history/decisionmodel" / stack
    history.mkdir(parents=True)
    for time in range(5):
        (history / f"{stack}-{time}.history.json.gz").touch()
    for name in (stack, f"{stack}-2"):
        (states / f"{name}.json.gz.bak").touch()

    async def use(driver: StackDriver) -> None:
        await driver.run(make_operation(OperationKind.PREVIEW))
        assert len(names(history)) == 5
        await driver.run(make_operation())
        assert names(history) == [f"{stack}-3.history.json.gz", f"{stack}-4.history.json.gz"]
        await driver.run(make_operation(OperationKind.REMOVE))
        assert names(history) == []
        assert names(states) == [f"{stack}-2.json.gz.bak"]

    stand_in.run(use)


def test_stacks_are_listed_by_name_whatever_is_in_them(stand_in: StandIn, states: Path) -> None:
    for name in ("b.json.gz", "b.json.gz.bak", "b.json.gz.attrs", "a.json", "b.json"):
        (states / name).write_text("unreadable")
    assert stand_in.run(StackDriver.stacks) == ("a", "b")


def test_a_list_that_cannot_be_read_raises(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    nowhere = "s3://states?endpoint=127.0.0.1:9&disableSSL=true&s3ForcePathStyle=true&region=us-east-1"
    with pytest.raises(BackendQueryError, match="BackendUnreachable"):
        stand_in.run_fresh(StackDriver.stacks, backend_url=nowhere)


def test_an_unreadable_state_is_thrown_away_only_with_its_stack(stand_in: StandIn, states: Path) -> None:
    state = states / "shop.fraud.1a2b3c4d.json.gz"
    state.write_text("unreadable")
    corrupt = {"exit": 255, "stderr": "error: failed to load checkpoint: invalid character 'u'"}
    stand_in.answers(up=[corrupt], stack_rm=[corrupt, {"exit": 6, "stderr": "error: no stack named"}])

    async def use(driver: StackDriver) -> None:
        kept = await driver.run(make_operation())
        assert kept.failure is not None
        assert kept.failure.reason is FailureReason.STATE_CORRUPT
        assert state.exists()
        removed = await driver.run(make_operation(OperationKind.REMOVE))
        assert removed.failure is None
        assert not state.exists()

    stand_in.run(use)


# --- self-check


@pytest.mark.parametrize("reported", ["v3.200.0", "v4.0.0", "", "not a version"])
def test_a_cli_of_the_wrong_version_is_refused(stand_in: StandIn, reported: str) -> None:
    stand_in.answers(version=[{"stdout": reported}])
    with pytest.raises(IncompatibleToolError, match=r"at least 3\.256\.0"):
        stand_in.run_fresh(StackDriver.stacks)


def test_a_cli_that_is_not_there_is_refused(stand_in: StandIn, tmp_path: Path) -> None:
    with pytest.raises(IncompatibleToolError, match="cannot be started"):
        stand_in.run_fresh(StackDriver.stacks, pulumi=tmp_path / "nothing")


def test_a_missing_provider_plugin_is_refused_and_named(stand_in: StandIn, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "plugins/resource-kubernetes-v4.1.0").mkdir(parents=True)
    with pytest.raises(
        IncompatibleToolError, match=r"no provider plugin kubernetes 4\.25\.0.*resource-kubernetes-v4\.1\.0"
    ):
        stand_in.run_fresh(StackDriver.stacks, plugins=("kubernetes",), pulumi_home=home)


def test_a_program_may_print(stand_in: StandIn) -> None:
    operation = make_operation(program=partial(driver_programs.print_to_stdout, "hello"))
    assert run_one(stand_in, operation).failure is None

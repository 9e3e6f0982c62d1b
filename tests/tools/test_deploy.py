"""How the tools run the Pulumi CLI: in time, without a lock left behind, and past the lock of a process that died."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.driver.sessions import session_members
from tools.cluster.clusters import Cluster
from tools.cluster.layout import layout_of
from tools.deploy import ROOT, DeployError, PulumiStack, run_pulumi
from tools.kubectl import wait_until

# A stand-in for the CLI, told what to do by files in its own directory: `hangs` and `deaf` (to interrupts) are empty,
# `lock` names the lock's owner.
_PULUMI = """\
#!{python} -SI
import os, pathlib, signal, subprocess, sys, time
here = pathlib.Path(__file__).parent
command = sys.argv[1]
if command == "version":
    sys.exit(print("v3.300.0"))
with open(here / "calls", "a") as calls:
    calls.write(command + "\\n")
lock = here / "lock"
if command == "cancel":
    lock.unlink()
elif command in ("up", "destroy"):
    if lock.exists():
        sys.exit("error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end "
                 "or delete the lock file with `pulumi cancel`.\\n  file:///1.json: created by " + lock.read_text())
    if (here / "hangs").exists():
        def interrupted(number, frame):
            print("state saved", flush=True)
            (here / "interrupts").open("a").write("one\\n")
            if not (here / "deaf").exists():
                lock.unlink()
                sys.exit(1)
        signal.signal(signal.SIGINT, interrupted)
        lock.write_text("me")
        print("Deployment: waiting for a Pod", flush=True)
        provider = subprocess.Popen(["/bin/sleep", "600"], process_group=0)
        (here / "started").write_text(str(os.getpid()))
        while True:
            signal.pause()
    print("done")
"""
# Python ignores interrupts where its parent does.
_TOOL = """\
import os, pathlib, signal
from tools.deploy import run_pulumi
signal.signal(signal.SIGINT, signal.default_int_handler)
run_pulumi(pathlib.Path(), os.environ, "up", timeout=600)
"""
_HOLDER = "root@{host} (pid {pid}) at 2100-01-01T00:00:00Z"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-in is, first on the PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "pulumi").write_text(_PULUMI.format(python=sys.executable))
    (directory / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    return directory


@pytest.fixture
def stack(tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> PulumiStack:
    # The provider may not be built on the machine that runs this.
    monkeypatch.setattr("tools.toolchain.prepare_pulumi_home", lambda _home: None)
    made = PulumiStack(Cluster(layout_of("unit", tmp_path)), "dev")
    made.directory.mkdir(parents=True)
    return made


def _operate(stack: PulumiStack, operation: str) -> str:
    return stack.up("image") if operation == "up" else stack.destroy()


def _dead_process() -> int:
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


def _calls(programs: Path) -> list[str]:
    return [call for call in (programs / "calls").read_text().splitlines() if call != "stack"]


def test_an_update_that_takes_too_long_is_interrupted_and_leaves_no_lock(programs: Path, stack: PulumiStack) -> None:
    (programs / "hangs").touch()

    with pytest.raises(DeployError, match=r"(?s)not done after 3 s.*waiting for a Pod\nstate saved\n.*kubectl get"):
        stack.pulumi("up", timeout=3)

    assert not (programs / "lock").exists()


def test_a_cli_that_does_not_react_is_killed_with_all_it_started(programs: Path) -> None:
    (programs / "hangs").touch()
    (programs / "deaf").touch()

    with pytest.raises(DeployError, match="waiting for a Pod"):
        run_pulumi(programs, os.environ, "up", timeout=3, grace_seconds=0.1)

    wait_until("its session to end", lambda: not session_members(int((programs / "started").read_text())), 10)


def test_an_interrupt_reaches_the_cli_once_and_waits_for_it(programs: Path) -> None:
    (programs / "hangs").touch()
    with subprocess.Popen(
        [sys.executable, "-c", _TOOL],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as tool:
        wait_until("the CLI to be at work", (programs / "started").exists, 30)
        # As a terminal does: to the whole process group.
        os.killpg(tool.pid, signal.SIGINT)
        _, complaints = tool.communicate(timeout=30)

    assert b"KeyboardInterrupt" in complaints
    assert (programs / "interrupts").read_text() == "one\n"
    assert not (programs / "lock").exists()


@pytest.mark.parametrize("operation", ["up", "destroy"])
def test_the_lock_of_a_process_that_died_is_dropped(programs: Path, stack: PulumiStack, operation: str) -> None:
    (programs / "lock").write_text(_HOLDER.format(host=socket.gethostname(), pid=_dead_process()))

    assert _operate(stack, operation) == "done\n"
    assert _calls(programs) == [operation, "cancel", operation]


@pytest.mark.parametrize("operation", ["up", "destroy"])
def test_the_lock_of_a_process_at_work_stays(programs: Path, stack: PulumiStack, operation: str) -> None:
    (programs / "lock").write_text(_HOLDER.format(host=socket.gethostname(), pid=os.getpid()))

    with pytest.raises(DeployError, match="currently locked"):
        _operate(stack, operation)
    assert _calls(programs) == [operation]


@pytest.mark.parametrize("operation", ["up", "destroy"])
def test_without_a_lock_nothing_is_cancelled(programs: Path, stack: PulumiStack, operation: str) -> None:
    assert _operate(stack, operation) == "done\n"
    assert _calls(programs) == [operation]

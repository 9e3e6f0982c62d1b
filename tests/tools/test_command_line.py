"""However a tool's command ends, its last line says what happened or what to do, and there is no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.command_line import exit_code

ROOT = Path(__file__).parents[2]
NEXT_STEP = "Do it again."


class ExpectedError(Exception):
    pass


def raising(error: BaseException) -> int:
    raise error


def noted(error: ExpectedError, note: str) -> ExpectedError:
    error.add_note(note)
    return error


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_commands_own_exit_code_is_kept(code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("tool", lambda: code, next_step=NEXT_STEP) == code
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ExpectedError("no cluster"), "tool: no cluster\n"),
        (noted(ExpectedError("no Pod"), "its log"), "tool: no Pod\nits log\n"),
        (OSError(28, "No space left on device", "/x"), "tool: [Errno 28] No space left on device: '/x'\n"),
    ],
    ids=["expected", "with a note", "of the operating system"],
)
def test_a_failure_is_told_with_the_next_step(error: Exception, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("tool", lambda: raising(error), ExpectedError, next_step=NEXT_STEP) == 1
    assert capsys.readouterr() == ("", f"{told}{NEXT_STEP}\n")


def test_a_fault_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        exit_code("tool", lambda: raising(ZeroDivisionError()), ExpectedError)


# Python ignores interrupts where its parent does.
WAITING = """
import signal, sys
from tools.command_line import exit_code
signal.signal(signal.SIGINT, signal.default_int_handler)
def wait():
    print("at work", flush=True)
    signal.pause()
sys.exit(exit_code("tool", wait, next_step="Do it again."))
"""


def test_an_interrupted_command_says_so_and_ends_as_shells_expect() -> None:
    command = [sys.executable, "-c", WAITING]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tool:
        assert tool.stdout
        assert tool.stdout.readline() == "at work\n"
        tool.send_signal(signal.SIGINT)
        _, told = tool.communicate(timeout=30)
    assert told == f"\ntool: interrupted.\n{NEXT_STEP}\n"
    assert tool.returncode == 128 + signal.SIGINT


def test_every_command_ends_this_way() -> None:
    """A command of the Makefile that does not would show its users a traceback on Ctrl-C."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {word for line in makefile.splitlines() if "-m tools." in line for word in line.split() if "tools." in word}
    for module in named:
        file = ROOT / module.replace(".", "/")
        source = file / "__main__.py" if file.is_dir() else file.with_suffix(".py")
        assert "exit_code(" in source.read_text(encoding="utf-8"), module
    assert len(named) >= 7

"""How dmctl ends when it cannot answer: with 3 and one line, never with 1, which means that something was found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli import command
from tests.cli.commands import Dmctl
from tests.policy.manifests import model

ROOT = Path(__file__).parents[2]
FAULTS = [RuntimeError("of nobody's making"), KeyError("missing"), RecursionError(), UnicodeError("no text")]


def shell(line: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in which `dmctl` is the command."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["sh", "-c", line.replace("dmctl", f"{sys.executable} -m cli")],
        cwd=directory,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("error", FAULTS, ids=[type(each).__name__ for each in FAULTS])
def test_a_fault_of_its_own_ends_with_3_and_one_line(
    error: Exception, dmctl: Dmctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(command.dmctl, "main", fail)
    done = dmctl("policy", "list")
    assert done.code == 3
    (line,) = done.err.splitlines()
    assert line.startswith(f"Error: dmctl itself failed: {type(error).__name__}")
    assert line.endswith("Run it again with DMCTL_DEBUG=1 for the traceback, and report that.")
    monkeypatch.setenv("DMCTL_DEBUG", "1")
    assert "Traceback" in dmctl("policy", "list").err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("dmctl policy list >/dev/full", "No space left on device"),
        ("dmctl policy check - <&-", "there is no standard input"),
        ("dmctl policy check --config - model.yaml <&-", "there is no standard input"),
        ("dmctl preview --offline - <&-", "there is no standard input"),
    ],
)
def test_streams_that_cannot_be_used_end_with_3_and_one_line(line: str, told: str, tmp_path: Path) -> None:
    done = shell(line, tmp_path)
    assert done.returncode == 3, done.stderr
    (error,) = done.stderr.splitlines()
    assert error.startswith("Error: ")
    assert told in error


@pytest.mark.parametrize("called", ["as it is", "by a link", "from elsewhere"])
def test_the_program_at_the_root_is_dmctl(called: str, tmp_path: Path) -> None:
    program = ROOT / "dmctl"
    if called == "by a link":
        program = tmp_path / "link"
        program.symlink_to(ROOT / "dmctl")
    elsewhere = tmp_path / "elsewhere"
    # What is called like a package of ours there must not be taken for it.
    (elsewhere / "cli").mkdir(parents=True)
    (elsewhere / "cli" / "__main__.py").write_text("raise SystemExit(99)")
    bare = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [program, "policy", "list"],
        cwd=ROOT if called == "as it is" else elsewhere,
        env=bare,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("decisionmodel-valid")


@pytest.mark.parametrize(
    "line", ["dmctl policy check missing.yaml 2>/dev/full", "dmctl policy list >/dev/full 2>/dev/full"]
)
def test_an_error_that_nobody_can_be_told_ends_with_3_all_the_same(line: str, tmp_path: Path) -> None:
    assert shell(line, tmp_path).returncode == 3


def test_a_reader_that_leaves_is_no_fault(tmp_path: Path) -> None:
    done = shell("(dmctl policy pack-config; echo ended with $? >&2) | true", tmp_path)
    assert done.stderr in {"ended with 3\n", "ended with 0\n"}


def test_files_are_judged_without_standard_input(dmctl: Dmctl) -> None:
    done = shell(f"dmctl policy check {dmctl.write('model.yaml', model())} <&-", dmctl.directory)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_path_that_no_file_can_have_is_named(dmctl: Dmctl) -> None:
    done = dmctl("policy", "check", "a" * 300)
    assert done.code == 3
    assert done.err.endswith("cannot be read: File name too long\n")


@pytest.mark.parametrize("report", ["text", "json", "sarif", "junit"])
def test_a_file_name_need_not_be_utf_8(report: str, dmctl: Dmctl) -> None:
    name = os.fsdecode(b"model-\xff.yaml")
    done = dmctl("policy", "check", "-o", f"{report}=report", dmctl.write(name, model(image="example.com/own:1")))
    assert (done.code, done.err) == (2, "")
    assert (dmctl.directory / "report").stat().st_size


@pytest.mark.parametrize("value", ["!!bool foo", '!!int ""', '!!int "_"', '!!float ""', "!!int x"])
def test_a_tag_that_its_value_does_not_fit_is_named_with_its_line(value: str, dmctl: Dmctl) -> None:
    done = dmctl("policy", "check", dmctl.write("model.yaml", f"kind: A\napiVersion: v1\nreplicas: {value}\n"))
    assert done.code == 3
    assert done.err.startswith("Error: model.yaml:1: holds a value that cannot be read as its type")

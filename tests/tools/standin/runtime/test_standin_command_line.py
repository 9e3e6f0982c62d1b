"""The program as a process: exit codes, texts on stderr, files, signals, memory (spec sections 1.4, 1.5 and 5.3)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.ports import free_port
from tests.tools.standin.runtime.conftest import Registry, StoreDirectory, call, onnx, wait_for

REPOSITORY = Path(__file__).parents[4]


@dataclass(frozen=True)
class Program:
    """The stand-in as users start it, with a home, a store and a port of its own."""

    environment: Mapping[str, str]
    home: Path
    port: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def start(self, **more: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self.command("serve"), env={**self.environment, **more}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self.started.append(process)
        wait_for(lambda: process.poll() is not None or self.answers(), 60)
        return process

    def answers(self) -> bool:
        with suppress(OSError):
            return call(f"http://127.0.0.1:{self.port}/").status == 200
        return False

    @staticmethod
    def command(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "tools.standin.runtime", *arguments]


@pytest.fixture
def program(tmp_path: Path, store: StoreDirectory) -> Iterator[Program]:
    port = free_port()
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "HOME": str(home),
        "OLLAYA_HOST": f"127.0.0.1:{port}",
        "OLLAYA_MODELS": str(store.root),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(REPOSITORY),
    }
    program = Program(environment, home, port)
    yield program
    for process in program.started:
        with process:  # closes its pipe and waits, also after a failed test
            process.kill()
    with suppress(OSError, ValueError):  # the daemon that a pull left behind
        os.kill(int((home / f".ollaya/server.{port}.pid").read_text()), signal.SIGTERM)


def stop(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_ends_with_zero_and_removes_its_pid_file(program: Program, number: signal.Signals) -> None:
    process = program.start()
    pid_file = program.home / f".ollaya/server.{program.port}.pid"
    wait_for(lambda: pid_file.is_file() and pid_file.read_text() == f"{process.pid}\n")
    code, log = stop(process, number)
    assert code == 0
    assert "Ollaya is running" in log
    assert "shutting down" in log
    assert not pid_file.exists()


def test_signals_that_come_one_upon_the_other_end_it_too(program: Program) -> None:
    process = program.start()
    for number in (signal.SIGTERM, signal.SIGINT) * 500:
        process.send_signal(number)
    assert stop(process)[0] == 0


def test_a_home_without_a_place_for_the_pid_file_is_only_a_warning(program: Program) -> None:
    (program.home / ".ollaya").write_text("in the way")
    process = program.start()
    assert program.answers()
    assert "no PID file" in stop(process)[1]


def test_serve_refuses_bad_settings_and_taken_ports(program: Program, tmp_path: Path) -> None:
    bad = program.run("serve", OLLAYA_DEVICE="tpu")
    assert (bad.returncode, "OLLAYA_DEVICE" in bad.stderr) == (1, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = program.run("serve", OLLAYA_HOST=f"127.0.0.1:{taken.getsockname()[1]}")
    assert (refused.returncode, refused.stderr.count("Error: cannot listen on")) == (1, 1)
    (tmp_path / "file").write_text("")
    assert "preparing the store" in program.run("serve", OLLAYA_MODELS=str(tmp_path / "file")).stderr


def test_the_process_crashes_when_told(program: Program) -> None:
    process = program.start(OLLAYA_STANDIN_EXIT_AFTER="0.3", OLLAYA_STANDIN_EXIT_CODE="7")
    assert process.wait(20) == 7
    process.communicate()


def test_wrong_arguments_exit_with_two(program: Program) -> None:
    assert program.run("nonsense").returncode == 2
    assert program.run("pull").returncode == 2


def test_the_version_is_the_servers_if_one_answers(program: Program) -> None:
    assert program.run("--version", OLLAYA_STANDIN_VERSION="0.7.3").stdout == "ollaya version is 0.7.3 (client)\n"
    process = program.start(OLLAYA_STANDIN_VERSION="0.10.0")
    assert program.run("-v").stdout == "ollaya version is 0.10.0\n"
    stop(process)


def test_pull_starts_a_daemon_pulls_and_leaves_it(program: Program, registry: Registry, store: StoreDirectory) -> None:
    model = registry.publish("laya:en", onnx())
    first = program.run("pull", "--", "laya:en", OLLAYA_REGISTRY=registry.url)
    assert (first.returncode, first.stdout, first.stderr) == (0, "", "")
    host = registry.url.removeprefix("http://").replace(":", "_")
    assert store.manifest("laya:en", host).read_bytes() == model.manifest
    assert "Ollaya is running" in (program.home / ".ollaya/logs/server.log").read_text()
    assert program.answers()
    assert program.run("pull", "laya:en", OLLAYA_REGISTRY=registry.url).returncode == 0
    assert "laya:en" in program.run("list").stdout
    missing = program.run("pull", "laya:none")
    assert missing.returncode == 1
    assert "not found in registry" in missing.stderr
    assert program.run("stop").returncode == 0
    wait_for(lambda: not program.answers())


def test_commands_about_one_model(program: Program, store: StoreDirectory) -> None:
    store.put("laya:en", onnx())
    process = program.start()
    call(f"http://127.0.0.1:{program.port}/api/decide", {"model": "laya:en", "keep_alive": -1})
    assert "Forever" in program.run("ps").stdout
    assert program.run("stop", "laya:en").returncode == 0
    assert "laya" not in program.run("ps").stdout
    assert '"capabilities"' in program.run("show", "laya:en").stdout
    assert program.run("cp", "laya:en", "mine:1").returncode == 0
    assert program.run("rm", "laya:en").returncode == 0
    assert "mine:1" in program.run("ls").stdout
    gone = program.run("rm", "laya:en")
    assert (gone.returncode, gone.stderr) == (1, 'Error: model "laya:en" not found, try pulling it first\n')
    stop(process)


@pytest.mark.parametrize("name", ["laya@sha256:ab", "a/b/c/d"])
def test_pull_refuses_bad_names_before_anything_starts(program: Program, name: str) -> None:
    refused = program.run("pull", name)
    assert (refused.returncode, refused.stderr) == (1, f'Error: invalid model name "{name}"\n')
    assert not (program.home / ".ollaya").exists()


def test_pull_without_network(program: Program) -> None:
    failed = program.run("pull", "laya:en", OLLAYA_REGISTRY="http://127.0.0.1:1")
    assert failed.returncode == 1
    assert "error sending request for url (http://127.0.0.1:1/v2/library/laya/manifests/en)" in failed.stderr


def test_pull_of_a_corrupt_blob(program: Program, registry: Registry) -> None:
    model = registry.publish("laya:en", onnx())
    for digest in model.blobs:
        registry.files[f"/blobs/{digest.replace(':', '-')}"] = b"x" * len(model.blobs[digest])
        registry.files[f"/v2/library/laya/blobs/{digest}"] = b"x" * len(model.blobs[digest])
    failed = program.run("pull", "laya:en", OLLAYA_REGISTRY=registry.url)
    assert failed.returncode == 1
    assert "does not match its digest" in failed.stderr


def test_pull_needs_a_place_for_the_log_of_its_daemon(program: Program) -> None:
    (program.home / ".ollaya").write_text("in the way")
    failed = program.run("pull", "laya:en")
    assert failed.returncode == 1
    assert f"creating {program.home}/.ollaya/logs" in failed.stderr


def test_pull_whose_daemon_never_answers_names_the_log(program: Program) -> None:
    failed = program.run("pull", "laya:en", OLLAYA_STANDIN_PULL_START_FAILURE="true")
    assert failed.returncode == 1
    assert str(program.home / ".ollaya/logs/server.log") in failed.stderr


def test_pull_starts_nothing_for_a_remote_daemon(program: Program) -> None:
    failed = program.run("pull", "laya:en", OLLAYA_HOST="192.0.2.1.invalid:9")
    assert (failed.returncode, "could not connect" in failed.stderr) == (1, True)
    assert not (program.home / ".ollaya").exists()


def test_a_log_directory_takes_the_log(program: Program, tmp_path: Path) -> None:
    process = program.start(OLLAYA_LOG_DIR=str(tmp_path / "logs"), OLLAYA_LOG="debug")
    assert stop(process) == (0, "")
    assert "method=GET path=/ status=200" in (tmp_path / "logs/server.log").read_text()


def test_a_serving_daemon_stays_small(program: Program, store: StoreDirectory) -> None:
    store.put("laya:en", onnx())
    process = program.start()
    body = {"model": "laya:en", "state": "refund", "questions": {"q": {"type": "noul"}}}
    for _ in range(200):
        assert call(f"http://127.0.0.1:{program.port}/v1/systemone", body).status == 200
    status = Path(f"/proc/{process.pid}/status").read_text()
    resident = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))
    stop(process)
    assert resident < 40 * 1024

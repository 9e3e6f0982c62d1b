"""The language host answers the engine, and real programs run under it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc  # type: ignore[import-untyped]  # ships no annotations, and no stubs are locked
import pytest
from pulumi.runtime.proto import language_pb2, language_pb2_grpc

from tools.toolchain import program_path

EXECUTABLE = Path(__file__).parents[3] / "tools" / "language_host" / "pulumi-language-python"

PROGRAM = """\
import pulumi

from greeting import greet

pulumi.export("greeting", greet(pulumi.Config().require("name")))
"""


@pytest.fixture(scope="module")
def host() -> Iterator[language_pb2_grpc.LanguageRuntimeStub]:
    """Start the executable as the engine does, by its printed port, and interrupt it as the engine does."""
    process = subprocess.Popen([EXECUTABLE, "127.0.0.1:1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline())
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield language_pb2_grpc.LanguageRuntimeStub(channel)
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=30)
    assert process.returncode == 0
    assert complaints == ""


def test_the_questions_before_a_run_are_answered(host: language_pb2_grpc.LanguageRuntimeStub) -> None:
    host.Handshake(language_pb2.LanguageHandshakeRequest(engine_address="127.0.0.1:1"))

    assert not host.GetRequiredPackages(language_pb2.GetRequiredPackagesRequest()).packages
    assert not host.GetProgramDependencies(language_pb2.GetProgramDependenciesRequest()).dependencies
    assert not host.RuntimeOptionsPrompts(language_pb2.RuntimeOptionsRequest()).prompts
    assert len([*host.InstallDependencies(language_pb2.InstallDependenciesRequest())]) == 1


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a directory with a program of two modules."""
    (tmp_path / "Pulumi.yaml").write_text("name: greeting\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(PROGRAM)
    (tmp_path / "greeting.py").write_text("def greet(name):\n    return f'hello {name}'\n")
    return tmp_path


def _pulumi(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    state = project / "state"
    state.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")} | {
        "PATH": f"{EXECUTABLE.parent}:{os.environ['PATH']}",
        "PULUMI_HOME": str(project / "home"),
        "PULUMI_BACKEND_URL": state.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }
    command = [str(program_path("pulumi")), "--non-interactive", "--cwd", str(project), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.cluster
def test_a_local_program_runs_in_its_directory_with_its_configuration(project: Path) -> None:
    _pulumi(project, "stack", "init", "dev")
    _pulumi(project, "config", "set", "name", "world", "--stack", "dev")

    up = _pulumi(project, "up", "--yes", "--stack", "dev")

    assert up.returncode == 0, up.stdout + up.stderr
    outputs = _pulumi(project, "stack", "output", "--json", "--stack", "dev")
    assert json.loads(outputs.stdout) == {"greeting": "hello world"}


@pytest.mark.cluster
def test_a_failing_program_fails_the_update_with_its_error(project: Path) -> None:
    _pulumi(project, "stack", "init", "dev")

    up = _pulumi(project, "up", "--yes", "--stack", "dev")

    assert up.returncode != 0
    assert "Missing required configuration variable 'greeting:name'" in up.stdout + up.stderr

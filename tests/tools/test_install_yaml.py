"""`install.yaml` is the platform that Pulumi declares, in one file that is the same every time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from components.configuration import PlatformConfiguration
from components.platform.manifests import platform_manifests
from tools.install_yaml import ROOT, install_yaml, main, stack_configuration, stack_policy

IMAGE = "registry.example/reconciler:1"
STACKS = sorted(file.name.split(".")[1] for file in (ROOT / "stacks").glob("Pulumi.*.yaml"))


def test_it_holds_exactly_what_the_program_declares() -> None:
    configuration = PlatformConfiguration(image=IMAGE)

    assert [*yaml.safe_load_all(install_yaml(configuration))] == platform_manifests(configuration)


@pytest.mark.parametrize("stack", STACKS)
def test_an_environments_platform_survives_the_file(stack: str) -> None:
    configuration = stack_configuration(stack, None)
    policy = stack_policy(stack, configuration)

    assert (policy is None) == (configuration.policy.file is None)
    assert [*yaml.safe_load_all(install_yaml(configuration, policy))] == platform_manifests(configuration, policy)


def test_nothing_of_the_engine_is_in_it() -> None:
    assert "pulumi.com/" not in install_yaml(PlatformConfiguration(image=IMAGE))


def test_it_is_the_same_every_time(tmp_path: Path) -> None:
    """Another process has another order of hashes."""
    for name, seed in (("first", "1"), ("second", "2")):
        subprocess.run(
            [sys.executable, "-m", "tools.install_yaml", f"--image={IMAGE}", f"--output={tmp_path / name}"],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        )

    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    assert f"image: {IMAGE}\n" in (tmp_path / "first").read_text()


@pytest.mark.parametrize("arguments", [[], ["--stack=nowhere"]])
def test_what_is_missing_is_told(arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([*arguments, f"--output={tmp_path / 'install.yaml'}"]) == 1
    assert capsys.readouterr().err.startswith("install-yaml: ")
    assert not (tmp_path / "install.yaml").exists()

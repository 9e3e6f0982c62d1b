"""The images as a container sees them: built for real, entered as their own user."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tools.images import Archive, build_reconciler_image, build_registry_image, build_runtime_image
from tools.images.buildah import Buildah
from tools.images.commands import run
from tools.toolchain.cache import cache_root

pytestmark = pytest.mark.cluster

BUILDAH = Buildah(cache_root().with_name("images"))


class Container:
    """A container of an image, in which commands can be run."""

    def __init__(self, archive: Archive) -> None:
        name, _, key = archive.name.rpartition("/")[2].partition(":")
        self._image = BUILDAH.stored(f"{name}-{key}")
        self._container = self._buildah("from", "--pull-never", self._image).strip()

    def run(self, *command: str) -> str:
        return self._buildah("run", "--isolation=chroot", self._container, "--", *command)

    def configuration(self) -> Any:
        return json.loads(self._buildah("inspect", "--type=image", self._image))["OCIv1"]["config"]

    def remove(self) -> None:
        self._buildah("rm", self._container)

    def _buildah(self, *arguments: str) -> str:
        storage = [f"--root={BUILDAH.directory / 'storage'}", f"--runroot={BUILDAH.directory / 'run'}"]
        return run(["buildah", *storage, *arguments])


@contextmanager
def container(build: Callable[[Callable[[str], None]], Archive]) -> Iterator[Container]:
    entered = Container(build(print))
    try:
        yield entered
    finally:
        entered.remove()


@pytest.fixture(scope="module")
def reconciler() -> Iterator[Container]:
    with container(build_reconciler_image) as entered:
        yield entered


@pytest.fixture(scope="module")
def ollaya() -> Iterator[Container]:
    with container(build_runtime_image) as entered:
        yield entered


@pytest.fixture(scope="module")
def registry() -> Iterator[Container]:
    with container(build_registry_image) as entered:
        yield entered


class TestReconciler:
    def test_it_runs_the_product_without_privileges(self, reconciler: Container) -> None:
        configuration = reconciler.configuration()
        assert configuration["User"] == "65532:65532"
        assert configuration["Entrypoint"] == ["python3", "-m", "reconciler.main"]
        assert "Usage" in reconciler.run("python3", "-m", "reconciler.main", "--help")

    def test_it_has_the_engine_and_the_provider(self, reconciler: Container) -> None:
        assert reconciler.run("pulumi", "version").startswith("v3.")
        provider = reconciler.run("sh", "-c", "ls $PULUMI_HOME/plugins/*/")
        assert provider.strip() == "pulumi-resource-kubernetes"

    def test_it_has_the_product_and_neither_its_tools_nor_its_tests(self, reconciler: Container) -> None:
        assert {"api", "cli", "components", "dmctl", "policy", "reconciler"} <= set(reconciler.run("ls").split())
        assert not {"tools", "tests", ".git", "requirements.txt"} & set(reconciler.run("ls", "-A").split())

    def test_it_has_the_command_line_for_who_can_only_reach_the_state_from_a_pod(self, reconciler: Container) -> None:
        assert "sweep" in reconciler.run("dmctl", "state", "--help")

    def test_nothing_has_to_be_compiled_at_a_start(self, reconciler: Container) -> None:
        trace = reconciler.run("sh", "-c", "python3 -v -c 'import reconciler.main' 2>&1")
        assert "reconciler/main.py" in trace
        assert [line for line in trace.splitlines() if "code object from /" in line or "is stale" in line] == []

    def test_the_build_left_no_secrets(self, reconciler: Container) -> None:
        assert reconciler.run("sh", "-c", "find /run/secrets /tmp -type f 2>/dev/null || true") == ""


class TestOllaya:
    def test_it_is_configured_as_the_published_image(self, ollaya: Container) -> None:
        configuration = ollaya.configuration()
        assert (configuration["User"], configuration["WorkingDir"]) == ("1000:1000", "/home/ollaya")
        assert (configuration["Entrypoint"], configuration["Cmd"]) == (["/usr/bin/ollaya"], ["serve"])
        assert list(configuration["Volumes"]) == ["/home/ollaya/.ollaya"]
        assert {
            "HOME=/home/ollaya",
            "OLLAYA_HOST=0.0.0.0:11435",
            "OLLAYA_MODELS=/home/ollaya/.ollaya/models",
        } <= set(configuration["Env"])

    def test_the_program_is_found_from_anywhere(self, ollaya: Container) -> None:
        assert "version" in ollaya.run("sh", "-c", "cd / && ollaya --version")

    def test_it_has_what_scripts_use_and_no_download_tools(self, ollaya: Container) -> None:
        assert ollaya.run("sh", "-c", "command -v sha256sum bash").split()
        assert ollaya.run("sh", "-c", "command -v curl wget || echo none").strip() == "none"


class TestRegistry:
    def test_it_runs_the_program_without_privileges(self, registry: Container) -> None:
        configuration = registry.configuration()
        assert configuration["User"] == "65532:65532"
        assert "--control-listen" in registry.run(*configuration["Entrypoint"], "--help")

"""What the builds ask of buildah and mmdebstrap, and how the machine's index settings reach a build."""

import stat
import subprocess
from pathlib import Path

import pytest

from tools.images.buildah import Recipe, build_command
from tools.images.commands import run
from tools.images.errors import CommandFailedError, ProgramMissingError
from tools.images.index_settings import (
    build_secrets,
    configuration_files,
    configured,
    index_environment,
    shell_exports,
)
from tools.images.rootfs import PACKAGES, machine_sources, rootfs_command


class TestBuildah:
    def test_a_build_is_reproducible_and_never_asks_a_registry(self) -> None:
        command = build_command(Recipe("reconciler", Path("/tree")), "oci:layout:x", [])
        assert {"--timestamp=0", "--pull=never", "--isolation=chroot", "--tag=oci:layout:x"} <= set(command)
        assert command[-1] == "/tree"

    def test_everything_of_a_recipe_is_passed_on(self) -> None:
        recipe = Recipe(
            "standin",
            Path("/tree"),
            target="ollaya",
            arguments={"BASE": "abc"},
            images={"runtime": "def"},
            directories={"programs": Path("/programs")},
        )
        assert {
            "--target=ollaya",
            "--build-arg=BASE=abc",
            "--build-context=runtime=container-image://def",
            "--build-context=programs=/programs",
            "--secret=id=pip,src=/x",
        } <= set(build_command(recipe, "r", ["id=pip,src=/x"]))

    def test_its_files_exist(self) -> None:
        for name in ("reconciler", "standin"):
            options = dict(
                argument.removeprefix("--").split("=", 1)
                for argument in build_command(Recipe(name, Path("/tree")), "r", [])
                if argument.startswith(("--file=", "--ignorefile="))
            )
            assert all(Path(path).is_file() for path in options.values()), options
            assert set(options) == {"file", "ignorefile"}

    def test_the_base_has_no_ignore_file(self) -> None:
        command = build_command(Recipe("base", Path("/tree"), uses_ignore_file=False), "r", [])
        assert not [argument for argument in command if argument.startswith("--ignorefile")]


class TestRootfs:
    def test_it_comes_from_the_machines_sources(self) -> None:
        command = rootfs_command(Path("/x/rootfs.tar"), "bookworm", [Path("/etc/apt/sources.list")])
        assert command[-3:] == ["bookworm", "/x/rootfs.tar", "/etc/apt/sources.list"]
        assert f"--include={','.join(PACKAGES)}" in command

    def test_at_most_one_file_of_sources_is_taken(self) -> None:
        assert len(machine_sources()) <= 1


class TestCommands:
    def test_output_is_returned(self, tmp_path: Path) -> None:
        assert run(["pwd"], tmp_path) == f"{tmp_path}\n"

    def test_a_failure_ends_with_the_last_lines(self) -> None:
        with pytest.raises(CommandFailedError, match=r"(?s)exit code 3.*line 40$") as failed:
            run(["sh", "-c", "for n in $(seq 40); do echo line $n; done >&2; exit 3"])
        assert "line 20\n" not in str(failed.value)

    def test_a_missing_program_says_how_to_get_it(self) -> None:
        with pytest.raises(ProgramMissingError, match=r"tools\.toolchain packages"):
            run(["no-such-program"])


class TestIndexSettings:
    def test_the_environment_wins_over_files(self) -> None:
        found = index_environment(
            {"PIP_INDEX_URL": "https://a.test/simple", "HTTPS_PROXY": "http://proxy.test:3128"},
            {"index-url": "https://b.test/simple", "timeout": "60"},
        )
        assert found == {
            "PIP_INDEX_URL": "https://a.test/simple",
            "PIP_TIMEOUT": "60",
            "HTTPS_PROXY": "http://proxy.test:3128",
        }

    def test_uvs_index_is_used_where_pip_has_none_of_its_own(self) -> None:
        uv = {"UV_DEFAULT_INDEX": "https://uv.test/simple"}
        assert index_environment(uv, {}) == {"PIP_INDEX_URL": "https://uv.test/simple"}
        assert index_environment(uv | {"PIP_INDEX_URL": "https://pip.test"}, {}) == {
            "PIP_INDEX_URL": "https://pip.test"
        }

    def test_paths_of_this_machine_mean_nothing_in_a_build(self) -> None:
        environment = {"PIP_FIND_LINKS": "/wheels", "PIP_CERT": "/etc/ca.pem", "PATH": "/bin", "HOME": "/root"}
        assert index_environment(environment, {"find-links": "/wheels", "cert": "/etc/ca.pem"}) == {}

    def test_a_shell_reads_the_exports_as_they_were(self) -> None:
        value = 'https://user:p\'a$s "word"@index.test/simple'
        script = shell_exports({"PIP_INDEX_URL": value}) + 'printf %s "$PIP_INDEX_URL"'
        assert subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout == value

    def test_later_configuration_files_win(self, tmp_path: Path) -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        first.write_text("[global]\nindex-url = https://first.test/%20x\ntimeout = 1\n")
        second.write_text("[install]\nindex-url = https://second.test\n[other]\nproxy = x\n")
        found = configured([first, tmp_path / "missing", second])
        assert found == {"index-url": "https://second.test", "timeout": "1"}

    def test_configuration_is_looked_up_where_pip_does(self) -> None:
        files = configuration_files({"XDG_CONFIG_HOME": "/x", "PIP_CONFIG_FILE": "/own"}, Path("/home"))
        assert files == [Path("/etc/pip.conf"), Path("/home/.pip/pip.conf"), Path("/x/pip/pip.conf"), Path("/own")]
        assert Path("/home/.config/pip/pip.conf") in configuration_files({}, Path("/home"))

    def test_secrets_are_private_files_that_do_not_outlive_the_build(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        certificates = tmp_path / "ca.pem"
        certificates.touch()
        monkeypatch.setenv("PIP_CERT", str(certificates))
        monkeypatch.setenv("PIP_INDEX_URL", "https://user:dummy@index.test/simple")
        with build_secrets() as (pip, ca):
            exports = Path(pip.removeprefix("id=pip,src="))
            assert "dummy" in exports.read_text()
            assert stat.S_IMODE(exports.stat().st_mode) == 0o600
            assert ca == f"id=ca,src={certificates}"
        assert not exports.exists()

    def test_a_machine_without_certificates_passes_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PIP_CERT", "/nowhere/ca.pem")
        with build_secrets() as secrets:
            assert [secret.partition(",")[0] for secret in secrets] == ["id=pip"]

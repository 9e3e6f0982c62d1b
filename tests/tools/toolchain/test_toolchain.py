"""The toolchain's decisions, and its builds with a stand-in for the Go command."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools.toolchain import BuildFailedError, NotBuiltError, build, kubernetes_component, program_path
from tools.toolchain.__main__ import main
from tools.toolchain.builds import is_fitting_pulumi_version
from tools.toolchain.cache import build_directory, cache_root, fingerprint
from tools.toolchain.packages import install_missing, missing_packages, service_starts_forbidden
from tools.toolchain.plugins import prepare_pulumi_home
from tools.toolchain.progress import progress_line
from tools.toolchain.pypi import is_fitting_go_version
from tools.toolchain.versions import PROGRAMS

_GO = """\
#!{python}
import pathlib, sys, time
if sys.argv[1] == "version":
    print("go version go1.26.8 linux/amd64")
    sys.exit(0)
with open({calls!r}, "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if pathlib.Path({broken!r}).exists():
    sys.exit("main.go:7: undefined: Serve")
time.sleep(0.1)  # long enough for a second build to come in between
pathlib.Path(sys.argv[sys.argv.index("-o") + 1]).write_text("built")
"""

_APT_GET = """\
#!/bin/sh
echo "$*" >>{machine}/calls
case "$*" in *install*)
    sleep 0.2  # long enough for a second installation to come in between
    touch {machine}/installed
esac
"""
_DPKG_QUERY = """\
#!/bin/sh
[ ! -e {machine}/installed ] || echo "installed runc"
"""


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a PATH on which `go` is a stand-in that writes what it is asked for."""
    programs = tmp_path / "programs"
    programs.mkdir()
    go = programs / "go"
    go.write_text(_GO.format(python=sys.executable, calls=str(tmp_path / "calls"), broken=str(tmp_path / "broken")))
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def _calls(workshop: Path) -> list[str]:
    calls = workshop / "calls"
    return calls.read_text().splitlines() if calls.exists() else []


def test_a_program_is_built_once_and_found_again(workshop: Path) -> None:
    executable = build("kubernetes")

    assert executable.read_text() == "built"
    assert build("kubernetes") == program_path("kubernetes") == executable
    assert len(_calls(workshop)) == 1
    assert "-trimpath -buildvcs=false" in _calls(workshop)[0]


def test_the_combined_executable_has_a_name_for_each_component(workshop: Path) -> None:
    build("kubernetes")

    assert kubernetes_component("kubelet").resolve() == program_path("kubernetes")


def test_two_builds_at_the_same_time_compile_once(workshop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadPoolExecutor() as pool:
        paths = set(pool.map(build, ["coredns", "coredns", "coredns"]))

    assert len(paths) == 1
    assert len(_calls(workshop)) == 1
    assert "waiting for the process that makes coredns" in capsys.readouterr().err


def test_a_failed_build_shows_the_compilers_words_and_leaves_no_trace(workshop: Path) -> None:
    (workshop / "broken").touch()

    with pytest.raises(BuildFailedError, match="undefined: Serve"):
        build("coredns")
    with pytest.raises(NotBuiltError, match="build coredns"):
        program_path("coredns")

    assert [path for path in cache_root().iterdir() if path.is_dir()] == []
    (workshop / "broken").unlink()
    assert build("coredns").exists()


def test_a_build_that_was_killed_is_started_over(workshop: Path) -> None:
    directory = build_directory(PROGRAMS["coredns"])
    unfinished = directory.with_name(f"{directory.name}.unfinished")
    unfinished.mkdir(parents=True)
    (unfinished / "coredns").write_text("half")

    assert build("coredns").read_text() == "built"
    assert not unfinished.exists()


def test_a_changed_module_is_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = PROGRAMS["coredns"]
    before = fingerprint(program)
    copy = tmp_path / "coredns"
    copy.mkdir()
    for file in ("go.mod", "go.sum", "main.go"):
        (copy / file).write_bytes((program.module / file).read_bytes())
    monkeypatch.setattr("tools.toolchain.versions._MODULES", tmp_path)

    assert fingerprint(program) == before
    (copy / "main.go").write_text("package main\n")
    assert fingerprint(program) != before


def test_a_fitting_installed_pulumi_is_taken_instead_of_a_build(workshop: Path) -> None:
    installed = workshop / "programs" / "pulumi"
    installed.write_text(f"#!{sys.executable}\nprint('v3.300.1')\n")
    installed.chmod(0o755)

    assert build("pulumi") == program_path("pulumi") == installed
    assert _calls(workshop) == []


def test_an_old_installed_pulumi_is_passed_over(workshop: Path) -> None:
    installed = workshop / "programs" / "pulumi"
    installed.write_text(f"#!{sys.executable}\nprint('v3.100.0')\n")
    installed.chmod(0o755)

    assert build("pulumi") != installed


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("v3.256.0\n", True),
        ("v3.274.1", True),
        ("v3.300.0-alpha.1", True),
        ("v3.255.9", False),
        ("v4.0.0", False),
        ("v2.999.0", False),
        ("", False),
        ("pulumi", False),
    ],
)
def test_which_pulumi_fits(text: str, fits: bool) -> None:
    assert is_fitting_pulumi_version(text) is fits


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("go version go1.26.6 linux/amd64", True),
        ("go version go1.27 linux/amd64", True),
        ("go version go1.26.5 linux/amd64", False),
        ("go version go1.26 linux/amd64", False),
        ("go version devel", False),
    ],
)
def test_which_go_fits(text: str, fits: bool) -> None:
    assert is_fitting_go_version(text) is fits


def test_every_program_carries_the_version_it_is_stamped_with() -> None:
    for program in PROGRAMS.values():
        assert all(
            value in program.version for variable, value in program.stamps if not variable.endswith(("Major", "Minor"))
        )
        assert (program.module / "go.sum").exists()


def test_the_module_asks_for_the_version_in_the_table() -> None:
    kubernetes, coredns = PROGRAMS["kubernetes"], PROGRAMS["coredns"]
    assert f"k8s.io/kubernetes {kubernetes.version}\n" in (kubernetes.module / "go.mod").read_text()
    assert f"github.com/coredns/coredns {coredns.version}\n" in (coredns.module / "go.mod").read_text()


def test_the_provider_is_installed_where_the_engine_looks_for_it(workshop: Path) -> None:
    provider = build("kubernetes-provider")
    home = workshop / "home"

    for _ in range(2):
        prepare_pulumi_home(home)

    plugins = home / "plugins" / f"resource-kubernetes-{PROGRAMS['kubernetes-provider'].version}"
    assert [path.name for path in plugins.iterdir()] == ["pulumi-resource-kubernetes"]
    assert (plugins / "pulumi-resource-kubernetes").resolve() == provider


def test_a_plugin_of_an_earlier_build_is_replaced(workshop: Path) -> None:
    provider = build("kubernetes-provider")
    home = workshop / "home"
    prepare_pulumi_home(home)
    (plugin,) = home.glob("plugins/*/pulumi-resource-kubernetes")
    plugin.unlink()
    plugin.symlink_to("/nowhere")

    prepare_pulumi_home(home)

    assert plugin.resolve() == provider


def test_only_what_is_not_installed_is_missing() -> None:
    listing = "installed runc\nnot-installed buildah\nconfig-files conntrack\n"

    assert missing_packages(["runc", "buildah", "conntrack", "etcd-server"], listing) == [
        "buildah",
        "conntrack",
        "etcd-server",
    ]


@pytest.mark.parametrize("before", [None, "#!/bin/sh\nexit 0\n"])
def test_services_are_kept_from_starting_only_meanwhile(tmp_path: Path, before: str | None) -> None:
    policy = tmp_path / "policy-rc.d"
    if before is not None:
        policy.write_text(before)

    with service_starts_forbidden(policy):
        assert subprocess.run([policy], check=False).returncode == 101

    assert (policy.read_text() if policy.exists() else None) == before
    assert [path.name for path in tmp_path.iterdir()] == ([] if before is None else ["policy-rc.d"])


def test_a_policy_put_aside_by_an_interrupted_run_comes_back(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text("ours")
    policy.with_name("policy-rc.d.before-decisionmodel").write_text("original")

    with service_starts_forbidden(policy):
        pass

    assert policy.read_text() == "original"


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a service policy of its own, whose apt-get takes its time and installs what is asked for."""
    programs = {"apt-get": _APT_GET, "dpkg-query": _DPKG_QUERY}
    for name, text in programs.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text.format(machine=tmp_path))
        program.chmod(0o755)
    (tmp_path / "policy-rc.d").write_text("original")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("tools.toolchain.packages._SERVICE_POLICY", tmp_path / "policy-rc.d")
    return tmp_path


def test_two_first_runs_at_the_same_time_install_once_and_restore_the_policy(debian: Path) -> None:
    with ThreadPoolExecutor() as pool:
        installed = list(pool.map(install_missing, [["runc"], ["runc"]]))

    assert sorted(installed) == [[], ["runc"]]
    assert (debian / "policy-rc.d").read_text() == "original"
    (install,) = [call for call in (debian / "calls").read_text().splitlines() if "install" in call]
    assert "DPkg::Lock::Timeout=" in install


def test_what_is_installed_costs_no_lock_and_no_call(debian: Path) -> None:
    (debian / "installed").touch()

    assert install_missing(["runc"]) == []
    assert not (debian / "calls").exists()
    assert not (debian / "cache").exists()


def test_the_command_line_names_the_missing_build(workshop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["path", "coredns"]) == 1
    assert "python3 -m tools.toolchain build coredns" in capsys.readouterr().err


def test_the_command_line_builds_and_prints_the_path(workshop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "coredns"]) == 0
    built = capsys.readouterr().out
    assert main(["path", "coredns"]) == 0
    assert capsys.readouterr().out == built


def test_the_progress_line_says_what_for_how_long_and_how_long_it_takes() -> None:
    assert progress_line("building pulumi", 75.4, "about 5 min") == "building pulumi: 1:15 (about 5 min)"


def test_a_relative_cache_directory_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert cache_root() == Path.home() / ".cache" / "decisionmodel" / "toolchain"


def test_it_runs_on_the_standard_library_alone() -> None:
    command = [sys.executable, "-S", "-I", "-c", "import sys; sys.path.insert(0, '.'); import tools.toolchain.__main__"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=os.curdir)
    assert run.stderr == ""

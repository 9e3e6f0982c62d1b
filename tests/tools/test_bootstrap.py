"""The bootstrap script, on machines made of stand-ins: what it installs, and what it says when it cannot."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.deploy import ROOT

# `apt-get` knows packages only after an update, and python3 can make environments only after the installation.
_APT_GET = """\
#!/bin/sh
echo "$*" >>"$STATE/apt"
case "$*" in
*update) touch "$STATE/updated" ;;
*install*python3-venv) test -e "$STATE/updated" && touch "$STATE/ensurepip" || exit 100 ;;
esac
"""
_PYTHON = """\
#!/bin/sh
case "$*" in
*"import ensurepip"*) [ -e "$STATE/ensurepip" ] ;;
"-m venv "*) mkdir -p "$3/bin"; cp "$STATE/bin/pip" "$3/bin/pip" ;;
esac
"""
_PIP = """\
#!/bin/sh
printf '#!/bin/sh\\necho "uv $*" >>"%s/calls"\\n' "$STATE" >"${0%pip}uv"
chmod +x "${0%pip}uv"
"""
_ID = """\
#!/bin/sh
cat "$STATE/uid"
"""

Bootstrap = Callable[[], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A fresh machine: root, python3 without venv, empty package lists."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("cat", "chmod", "cp", "dirname", "mkdir", "touch"):
        (programs / name).symlink_to(shutil.which(name) or "")
    for name, text in {"apt-get": _APT_GET, "python3": _PYTHON, "pip": _PIP, "id": _ID}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / "uid").write_text("0\n")
    return tmp_path


@pytest.fixture
def bootstrap(machine: Path) -> Bootstrap:
    environment = {"PATH": str(machine / "bin"), "STATE": str(machine), "XDG_CACHE_HOME": str(machine / "cache")}
    command = ["/bin/sh", str(ROOT / "tools" / "bootstrap.sh")]
    return lambda: subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_fresh_debian_gets_all_it_needs(machine: Path, bootstrap: Bootstrap) -> None:
    run = bootstrap()

    assert run.returncode == 0, run.stderr
    assert (machine / "calls").read_text() == "uv sync --quiet --locked\n"


def test_what_is_there_is_not_installed_again(machine: Path, bootstrap: Bootstrap) -> None:
    (machine / "ensurepip").touch()

    assert bootstrap().returncode == 0
    assert not (machine / "apt").exists()


def test_without_apt_get_it_says_what_to_do(machine: Path, bootstrap: Bootstrap) -> None:
    (machine / "bin" / "apt-get").unlink()

    run = bootstrap()

    assert run.returncode == 1
    assert "no apt-get: install the package python3-venv by hand" in run.stderr


def test_without_root_it_says_what_to_do_and_tries_nothing(machine: Path, bootstrap: Bootstrap) -> None:
    (machine / "uid").write_text("1000\n")

    run = bootstrap()

    assert run.returncode == 1
    assert "only root can install it: install the package python3-venv by hand" in run.stderr
    assert not (machine / "apt").exists()


def test_a_failed_installation_ends_with_the_next_step(machine: Path, bootstrap: Bootstrap) -> None:
    (machine / "bin" / "apt-get").write_text("#!/bin/sh\necho 'E: no route to the mirror' >&2\nexit 100\n")

    run = bootstrap()

    assert run.returncode == 1
    assert "no route to the mirror" in run.stderr
    assert run.stderr.endswith("install the package python3-venv by hand and run this again\n")

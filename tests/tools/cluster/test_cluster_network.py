"""The network of a node, on kernels that have the bridge's settings and on those that first load a module."""

import os
from pathlib import Path

import pytest

from tools.cluster.errors import PrerequisiteError
from tools.cluster.namespaces import connect_network
from tools.cluster.processes import Process

# Runs the command after its own options, and thereby shows which programs were run inside.
_NSENTER = """\
#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
INSIDE=yes exec "$@"
"""
_RECORDED = """\
#!/bin/sh
echo "$INSIDE ${{0##*/}} $*" >>"{machine}/calls"
{body}
"""
_NODE = Process(pid=1, start_ticks=1)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose kernel has the settings of bridges where the file `settings` is there; its module can be loaded.

    Setting them fails without.
    """
    settings = tmp_path / "settings"
    programs = {
        "ip": "cat >/dev/null",
        "test": f"[ -e {settings} ]",
        "modprobe": f'touch "{settings}"',
        "sysctl": f"[ -e {settings} ] || {{ echo 'cannot stat /proc/sys/net/bridge' >&2; exit 255; }}",
    }
    _write(tmp_path / "bin" / "nsenter", _NSENTER)
    for name, body in programs.items():
        _write(tmp_path / "bin" / name, _RECORDED.format(machine=tmp_path, body=body))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def _write(program: Path, text: str) -> None:
    program.parent.mkdir(exist_ok=True)
    program.write_text(text)
    program.chmod(0o755)


def _calls(machine: Path) -> list[str]:
    return (machine / "calls").read_text().splitlines()


def test_the_module_of_the_bridges_settings_is_loaded_where_the_kernel_lacks_them(machine: Path) -> None:
    connect_network(_NODE)

    assert "yes modprobe br_netfilter" in _calls(machine)
    assert _calls(machine)[-1].startswith("yes sysctl")


def test_no_module_is_loaded_where_the_settings_are_there(machine: Path) -> None:
    (machine / "settings").touch()

    connect_network(_NODE)

    assert "yes test -d /proc/sys/net/bridge" in _calls(machine)
    assert not any("modprobe" in call for call in _calls(machine))


def test_a_module_that_cannot_be_loaded_is_named_with_the_next_step(machine: Path) -> None:
    _write(machine / "bin" / "modprobe", "#!/bin/sh\necho 'FATAL: Module br_netfilter not found' >&2\nexit 1\n")

    with pytest.raises(PrerequisiteError, match=r"(?s)run modprobe br_netfilter on the host.*FATAL: Module"):
        connect_network(_NODE)

"""The package index as this machine reaches it, handed to a build that inherits nothing of the machine.

They travel as secrets of the build, since an address may contain a password: mounted for one step, part of no layer.
"""

import configparser
import os
import shlex
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout", "retries")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy")


def index_environment(environment: Mapping[str, str], configuration: Mapping[str, str]) -> dict[str, str]:
    """The variables that lead pip to the machine's index.

    Args:
        environment: of this process; wins over the configuration, as with pip itself. Where only uv knows the
            index, its address is taken from there.
        configuration: settings of pip's configuration files, by their long names.

    Returns:
        Names and values for the environment of a build.
    """
    found = {_variable(name): configuration[name] for name in _SETTINGS if name in configuration}
    if uv_index := environment.get("UV_DEFAULT_INDEX") or environment.get("UV_INDEX_URL"):
        found["PIP_INDEX_URL"] = uv_index
    wanted = {_variable(name) for name in _SETTINGS}
    return found | {name: value for name, value in environment.items() if name in wanted or name.lower() in _PROXIES}


def shell_exports(variables: Mapping[str, str]) -> str:
    """A shell script that sets the variables."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(variables.items()))


def configured(files: Sequence[Path]) -> dict[str, str]:
    """What pip's configuration files say for `install`; later files win, missing ones are skipped."""
    parser = configparser.RawConfigParser()
    parser.read(files)
    return {
        name: value
        for section in ("global", "install")
        if parser.has_section(section)
        for name, value in parser.items(section)
    }


def configuration_files(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Where pip looks for its configuration: of the machine, the user and the process, in this order."""
    personal = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    named = environment.get("PIP_CONFIG_FILE")
    return [Path("/etc/pip.conf"), home / ".pip/pip.conf", personal / "pip/pip.conf", *([Path(named)] if named else [])]


@contextmanager
def build_secrets() -> Iterator[list[str]]:
    """Secrets for `buildah bud --secret`: `pip` with the index settings, `ca` with the trusted certificates if any."""
    settings = configured(configuration_files(os.environ, Path.home()))
    certificates = os.environ.get("PIP_CERT") or settings.get("cert") or ssl.get_default_verify_paths().cafile
    with TemporaryDirectory(prefix="images-") as directory:
        exports = Path(directory) / "pip"
        exports.touch(mode=0o600)
        exports.write_text(shell_exports(index_environment(os.environ, settings)))
        secrets = [f"id=pip,src={exports}"]
        if certificates and Path(certificates).is_file():
            secrets.append(f"id=ca,src={certificates}")
        yield secrets


def _variable(setting: str) -> str:
    return f"PIP_{setting.upper().replace('-', '_')}"

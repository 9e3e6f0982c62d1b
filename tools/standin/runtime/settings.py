"""The daemon's settings, read from environment variables and refused as a whole when one is bad (spec section 1.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .durations import parse_duration, parse_keep_alive
from .errors import SettingsError
from .names import DEFAULT_REGISTRY
from .switches import SwitchError, Switches, switches_from_environment

CONTRACT_VERSION: Final = "0.12.0"
DEFAULT_PORT: Final = 11435
_DEVICE: Final = re.compile(r"auto|cpu|cuda(:[0-9]+)?|metal|vulkan(:[0-9]+)?")
_SINCE: Final = {
    "state_truncated": (0, 7, 2),
    "presets": (0, 10, 0),
    "hf_endpoint": (0, 10, 0),
    "threads": (0, 11, 0),
    "range_fallback": (0, 12, 1),
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where the daemon listens and the command line connects; `prefix` is a path put before every client path."""

    host: str
    port: int
    scheme: str = "http"
    prefix: str = ""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in {"localhost", "::1"} or self.host.startswith("127.")

    @property
    def is_local(self) -> bool:
        """Whether a daemon started here would answer on it; binding every address counts."""
        return self.is_loopback or self.host in {"0.0.0.0", "::"}

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class HuggingFaceAccess:
    """Rewrite of Hugging Face URLs and the tokens that may go with them."""

    endpoint: str | None = None
    token: str | None = None
    upstream_token: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything `serve` is told from outside; durations in seconds, `keep_alive` infinite when pinned."""

    address: Address
    home: Path
    models: Path
    keep_alive: float
    max_loaded_models: int
    max_queue: int
    load_timeout: float
    device: str
    threads: int | None
    api_key: str | None
    origins: tuple[str, ...]
    registry: str
    hugging_face: HuggingFaceAccess
    log_level: str
    log_dir: Path | None
    version: str
    control: Address | None
    switches: Switches

    def supports(self, feature: str) -> bool:
        """Tell whether the version being played has `feature`."""
        return version_key(self.version) >= _SINCE[feature]


def version_key(version: str) -> tuple[int, ...]:
    """Return the numbers of ``MAJOR.MINOR.PATCH``."""
    return tuple(int(number) for number in version.split("."))


def parse_settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings of an environment; SettingsError names the first variable with a bad value."""
    variables = {key: value.strip() for key, value in environment.items() if value.strip()}
    home = Path(variables.get("HOME", "/"))
    version = _version(variables.get("OLLAYA_STANDIN_VERSION", CONTRACT_VERSION))
    control = variables.get("OLLAYA_STANDIN_CONTROL")
    return Settings(
        address=parse_address(variables.get("OLLAYA_HOST", f"127.0.0.1:{DEFAULT_PORT}")),
        home=home,
        models=Path(variables.get("OLLAYA_MODELS", str(home / ".ollaya/models"))),
        keep_alive=_keep_alive(variables.get("OLLAYA_KEEP_ALIVE", "5m")),
        max_loaded_models=_count(variables, "OLLAYA_MAX_LOADED_MODELS", 3),
        max_queue=_count(variables, "OLLAYA_MAX_QUEUE", 512),
        load_timeout=_load_timeout(variables.get("OLLAYA_LOAD_TIMEOUT", "5m")),
        device=_device(variables.get("OLLAYA_DEVICE", "auto")),
        threads=_threads(variables, version),
        api_key=variables.get("OLLAYA_API_KEY"),
        origins=tuple(origin.strip() for origin in variables.get("OLLAYA_ORIGINS", "").split(",") if origin.strip()),
        registry=variables.get("OLLAYA_REGISTRY", DEFAULT_REGISTRY).rstrip("/").lower(),
        hugging_face=_hugging_face(variables, version),
        log_level=variables.get("OLLAYA_LOG", "info"),
        log_dir=Path(variables["OLLAYA_LOG_DIR"]) if "OLLAYA_LOG_DIR" in variables else None,
        version=version,
        control=parse_address(control, "OLLAYA_STANDIN_CONTROL") if control else None,
        switches=_switches(variables),
    )


def parse_address(text: str, variable: str = "OLLAYA_HOST") -> Address:
    """Return the address written as ``[scheme://]host[:port][/prefix]``; SettingsError when it is none."""
    scheme, found, rest = text.partition("://")
    scheme, rest = (scheme.lower(), rest) if found else ("http", text)
    authority, _, prefix = rest.partition("/")
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]*)(?::([0-9]{1,5}))?", authority)
    if scheme not in {"http", "https"} or match is None or int(match[2] or 0) > 65535:
        raise SettingsError(f"{variable}: {text!r} is not an address such as 127.0.0.1:{DEFAULT_PORT}")
    default_port = 443 if scheme == "https" else DEFAULT_PORT
    port = int(match[2]) if match[2] else default_port
    prefix = prefix.strip("/")
    return Address(match[1].strip("[]") or "127.0.0.1", port, scheme, f"/{prefix}" if prefix else "")


def _keep_alive(text: str) -> float:
    try:
        return parse_keep_alive(text)
    except ValueError as error:
        raise SettingsError(f"OLLAYA_KEEP_ALIVE: {error}") from None


def _load_timeout(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"OLLAYA_LOAD_TIMEOUT: {error}") from None
    if seconds <= 0:
        raise SettingsError(f"OLLAYA_LOAD_TIMEOUT: {text!r} is not a positive duration")
    return seconds


def _count(variables: Mapping[str, str], variable: str, default: int) -> int:
    text = variables.get(variable, str(default))
    if not re.fullmatch(r"\+?[0-9]{1,18}", text) or int(text) == 0:
        raise SettingsError(f"{variable}: {text!r} is not a positive whole number")
    return int(text)


def _device(text: str) -> str:
    if not _DEVICE.fullmatch(text.lower()):
        raise SettingsError(f"OLLAYA_DEVICE: {text!r} is none of auto, cpu, cuda, cuda:<n>, metal, vulkan, vulkan:<n>")
    return text.lower()


def _version(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}", text):
        raise SettingsError(f"OLLAYA_STANDIN_VERSION: {text!r} is not MAJOR.MINOR.PATCH")
    return text


def _threads(variables: Mapping[str, str], version: str) -> int | None:
    if version_key(version) < _SINCE["threads"] or "OLLAYA_THREADS" not in variables:
        return None
    return _count(variables, "OLLAYA_THREADS", 1)


def _hugging_face(variables: Mapping[str, str], version: str) -> HuggingFaceAccess:
    if version_key(version) < _SINCE["hf_endpoint"]:
        return HuggingFaceAccess(upstream_token=variables.get("HF_TOKEN"))
    endpoint = variables.get("OLLAYA_HF_ENDPOINT", variables.get("HF_ENDPOINT"))
    return HuggingFaceAccess(endpoint, variables.get("OLLAYA_HF_TOKEN"), variables.get("HF_TOKEN"))


def _switches(variables: Mapping[str, str]) -> Switches:
    try:
        return switches_from_environment(variables)
    except SwitchError as error:
        raise SettingsError(f"OLLAYA_STANDIN_*: {error}") from None

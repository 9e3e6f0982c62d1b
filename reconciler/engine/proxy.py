"""Which of the reconciler's proxy settings a prefetch Job inherits (spec section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from components.desired import EnvironmentVariable

_PROXIES: Final = (("HTTP_PROXY", "http_proxy"), ("HTTPS_PROXY", "https_proxy"))
_EXCEPTIONS: Final = ("NO_PROXY", "no_proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """Variables for the Job, and the names (never values) of those withheld since they may hold credentials."""

    variables: tuple[EnvironmentVariable, ...] = ()
    skipped: tuple[str, ...] = ()


def inherited_proxy(environment: Mapping[str, str]) -> ProxySettings:
    """Pick the proxy settings that may be written into a Pod.

    The two spellings of one key stand or fall together: were only one withheld, the other would take its place
    and send downloads where nobody meant them to go.
    """
    variables: list[EnvironmentVariable] = []
    skipped: list[str] = []
    for pair in _PROXIES:
        present = {name: environment[name] for name in pair if environment.get(name)}
        if all(map(_is_free_of_credentials, present.values())):
            variables += [EnvironmentVariable(name=name, value=value) for name, value in present.items()]
        else:
            skipped += present
    variables += [
        EnvironmentVariable(name=name, value=environment[name]) for name in _EXCEPTIONS if environment.get(name)
    ]
    return ProxySettings(variables=tuple(variables), skipped=tuple(skipped))


def _is_free_of_credentials(value: str) -> bool:
    """Whether the value is a URL without user information; what does not parse is assumed to hold some."""
    if "@" in value or not value.isprintable() or " " in value:
        return False
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        return bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False

"""Which registries the reconciler may talk to, and the options that say so (spec sections 2.2 and 11.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from reconciler.engine.errors import InvalidEndpoint, RegistryNotAllowed
from reconciler.engine.names import DEFAULT_HOST, ModelName, RegistryAddress, is_host

DEFAULT_REGISTRY_URL: Final = f"https://{DEFAULT_HOST}"

_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
_PATH: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryPolicy:
    """The configured registry and what is allowed beside it."""

    registry_url: str = DEFAULT_REGISTRY_URL
    """Registry of names without a host (option `--ollaya-registry`)."""
    allowed: frozenset[str] = frozenset({DEFAULT_HOST})
    """`host` or `host:port` (option `--allowed-registries`); also the configured registry must be among them."""
    allow_insecure: bool = False


def check_allowed(name: ModelName, policy: RegistryPolicy) -> RegistryAddress:
    """The registry of `name`, if the policy allows to call it.

    Raises:
        RegistryNotAllowed: Its host is not on the list, or it speaks plain HTTP without permission.
    """
    address = name.registry(policy.registry_url)
    if address.host not in policy.allowed:
        raise RegistryNotAllowed(f"registry {address.host} is not allowed; --allowed-registries can add it")
    if address.insecure and not policy.allow_insecure:
        raise RegistryNotAllowed(f"registry {address.host} uses plain HTTP; --allow-insecure-registries can permit it")
    return address


def parse_endpoint(option: str, value: str, *, allow_insecure: bool) -> str:
    """Check an address given on the command line and bring it into its shortest form.

    Args:
        option: Name of the option, for the error message.
        value: An absolute http or https URL.
        allow_insecure: Whether plain HTTP is permitted.

    Raises:
        InvalidEndpoint: The address is unusable. The message never repeats it, since it may hold credentials.
    """
    try:
        parts = urlsplit(value.strip())
    except ValueError:
        raise InvalidEndpoint(f"{option} is not a URL") from None
    host = parts.netloc.lower()
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise InvalidEndpoint(f"{option} must be an absolute URL of scheme https or http")
    if "@" in host or "?" in value or "#" in value:
        raise InvalidEndpoint(f"{option} must have no user information, query or fragment")
    path = parts.path.rstrip("/")
    if not is_host(host) or not _PATH.fullmatch(path):
        raise InvalidEndpoint(f"{option} has a malformed host or path")
    if parts.scheme == "http" and not allow_insecure:
        raise InvalidEndpoint(f"{option} must use https unless --allow-insecure-registries is set")
    return f"{parts.scheme}://{host.removesuffix(_DEFAULT_PORTS[parts.scheme])}{path}"


def parse_allowed_registries(text: str) -> frozenset[str]:
    """Read the comma-separated list of `--allowed-registries`.

    Raises:
        InvalidEndpoint: An item is empty or not a host.
    """
    hosts = [item.strip().lower() for item in text.split(",")]
    malformed = next((host for host in hosts if not is_host(host)), None)
    if malformed is not None:
        raise InvalidEndpoint(f"--allowed-registries: {malformed[:80]!r} is not a host with an optional port")
    return frozenset(hosts)

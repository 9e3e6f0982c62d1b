"""Opens the HTTP clients to the API server from in-cluster credentials or a kubeconfig.

Only this module touches lightkube. Its configuration layer is what we take from it: kubeconfig parsing, TLS, every
kind of credential, and the service account token re-read from its file after a 401. `verify_cluster` and `user_auth`
are no documented entry points, which is why the dependency is pinned to one minor release.
"""

from pathlib import Path
from typing import Any

import httpx2
import msgspec
import yaml
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.core.exceptions import ConfigError as CredentialError

from reconciler.http_client import open_client
from reconciler.kernel.errors import KernelError

__all__ = [
    "API_CONNECTIONS",
    "ConfigurationError",
    "CredentialError",
    "load_configuration",
    "open_api_client",
    "open_watch_client",
]

# Bookmarks come about every minute, so a watch that is silent for longer than this is a dead connection.
WATCH_READ_SECONDS = 75.0
_OTHER_CONTENT = (AttributeError, TypeError)
_UNREADABLE = (CredentialError, msgspec.MsgspecError, yaml.YAMLError, KeyError, ValueError, OSError, *_OTHER_CONTENT)
_CONNECT_SECONDS = 5.0
_API_SECONDS = 30.0
API_CONNECTIONS = 20
"""How many requests one client has under way at once, if nothing else is said; others wait for their turn."""


class ConfigurationError(KernelError):
    """No usable credentials: neither a service account nor a readable kubeconfig with that context."""


def load_configuration(kubeconfig: Path | None, context: str | None = None) -> SingleConfig:
    """Read the kubeconfig, or the Pod's service account when none is given.

    Raises:
        ConfigurationError: It is missing, unreadable or has no such context.
    """
    try:
        if kubeconfig is None:
            chosen = KubeConfig.from_service_account().get()
        else:
            chosen = KubeConfig.from_file(kubeconfig).get(context)
    except _UNREADABLE as error:
        source = "the Pod's service account" if kubeconfig is None else str(kubeconfig)
        raise ConfigurationError(f"cannot connect with {source}: {_reason(error)}") from error
    assert chosen is not None  # noqa: S101 - only a default we never pass makes it None
    return chosen


def _reason(error: Exception) -> str:
    """Say what lightkube left to Python to say: in an empty file, for example, it stumbles over None."""
    if isinstance(error, _OTHER_CONTENT):
        return "its content is no kubeconfig"
    return f"{error} is missing in it" if isinstance(error, KeyError) else str(error)


def open_api_client(
    configuration: SingleConfig, user_agent: str, connections: int = API_CONNECTIONS
) -> httpx2.AsyncClient:
    """Open the client for everything but watches: few connections, kept alive, 30 s for one answer."""
    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
    timeout = httpx2.Timeout(_API_SECONDS, connect=_CONNECT_SECONDS)
    return _open(configuration, user_agent, limits=limits, timeout=timeout)


def open_watch_client(configuration: SingleConfig, user_agent: str) -> httpx2.AsyncClient:
    """Open the client for watches: each stream holds a connection, so they get a pool of their own without a limit."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    timeout = httpx2.Timeout(_CONNECT_SECONDS, read=WATCH_READ_SECONDS)
    return _open(configuration, user_agent, limits=limits, timeout=timeout)


def _open(configuration: SingleConfig, user_agent: str, **options: Any) -> httpx2.AsyncClient:
    """Proxy variables of the environment are for the outside world and never apply to our own API server."""
    user = configuration.user
    if user is None:
        raise ConfigurationError(f"context {configuration.context_name} names no user")
    try:
        return open_client(
            base_url=configuration.cluster.server,
            verify=verify_cluster(configuration.cluster, user, configuration.abs_file, trust_env=False),
            auth=user_auth(user),
            headers={"User-Agent": user_agent},
            trust_env=False,
            **options,
        )
    except (*_UNREADABLE, httpx2.InvalidURL) as error:
        name = configuration.context_name
        raise ConfigurationError(f"address or credentials of context {name} cannot be used: {error}") from error

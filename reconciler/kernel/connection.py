"""Opens the HTTP clients to the API server from in-cluster credentials or a kubeconfig.

lightkube's configuration layer is what we take from it: TLS, most kinds of credentials, and the service account token
re-read from its file after a 401. `verify_cluster` and `user_auth` are no documented entry points, which is why the
dependency is pinned to one minor release. What it drops of a kubeconfig is read here: exec plugins as kubectl runs
them, `tls-server-name`, `proxy-url` and whom to impersonate.
"""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import msgspec
import yaml
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError as CredentialError

from reconciler.http_client import open_client
from reconciler.kernel.errors import KernelError
from reconciler.kernel.exec_auth import ExecAuth, PluginCredentials
from reconciler.kernel.exec_plugin import read_plugin

__all__ = [
    "API_CONNECTIONS",
    "Configuration",
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
_PROXY_SCHEMES = ("http", "https")
_CONNECT_SECONDS = 5.0
_API_SECONDS = 30.0
API_CONNECTIONS = 20
"""How many requests one client has under way at once, if nothing else is said; others wait for their turn."""


class ConfigurationError(KernelError):
    """No usable credentials: neither a service account nor a readable kubeconfig with that context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """How one context of a kubeconfig reaches its cluster, and as whom.

    Attributes:
        chosen: What lightkube reads of it.
        server_name: The name that the API server's certificate has to be for, if not that of its address.
        proxy: URL of an HTTP proxy on the way to it, if there is one; it may hold a password.
        headers: What else every request says: whom to impersonate.
        credentials: The exec plugin that says who we are, if there is one.
    """

    chosen: SingleConfig
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    credentials: PluginCredentials | None = None

    @property
    def namespace(self) -> str:
        """The context's namespace."""
        return self.chosen.namespace


def load_configuration(kubeconfig: Path | None, context: str | None = None) -> Configuration:
    """Read the kubeconfig, or the Pod's service account when none is given.

    Raises:
        ConfigurationError: It is missing, unreadable, has no such context, or says something that is not supported.
    """
    try:
        if kubeconfig is None:
            account = KubeConfig.from_service_account().get()
            assert account is not None  # noqa: S101 - only a default we never pass makes it None
            return Configuration(chosen=account)
        return _read(kubeconfig.expanduser(), context)
    except _UNREADABLE as error:
        source = "the Pod's service account" if kubeconfig is None else str(kubeconfig)
        raise ConfigurationError(f"cannot connect with {source}: {_reason(error)}") from error


def _read(path: Path, context: str | None) -> Configuration:
    if not path.is_file():
        raise CredentialError(f"Configuration file {path} not found")
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    chosen = KubeConfig.from_dict(_only(content, context), fname=path.absolute()).get()
    assert chosen is not None  # noqa: S101 - only a default we never pass makes it None
    cluster = _named(content, "clusters", chosen.context.cluster)["cluster"]
    user = (_named(content, "users", chosen.context.user)["user"] or {}) if chosen.context.user else {}
    if user.get("auth-provider"):
        raise CredentialError(
            "user.auth-provider is not supported, nor by kubectl any more: use the provider's exec plugin, or a token"
            " that `kubectl create token` prints"
        )
    return Configuration(
        chosen=chosen._replace(user=_resolved(chosen.user, path)),
        server_name=cluster.get("tls-server-name") or None,
        proxy=_proxy(cluster.get("proxy-url")),
        headers=tuple(_impersonation(user)),
        credentials=_credentials(user, cluster, path),
    )


def _only(content: dict[str, Any], context: str | None) -> dict[str, Any]:
    """Return the kubeconfig with one context and what that needs: entries of others may hold what only others read."""
    name = context or content.get("current-context")
    if not name:
        raise CredentialError("it has no current-context; name one")
    chosen = next((each for each in content["contexts"] or () if each["name"] == name), None)
    if chosen is None:
        raise CredentialError(f"Context '{name}' not found")
    user = chosen["context"].get("user")
    users = [_named(content, "users", user)] if user else []
    return {
        "current-context": name,
        "contexts": [chosen],
        "clusters": [_named(content, "clusters", chosen["context"]["cluster"])],
        "users": [{**each, "user": each["user"] or {}} for each in users],
    }


def _named(content: dict[str, Any], entries: str, name: str) -> dict[str, Any]:
    found = next((each for each in content[entries] or () if each["name"] == name), None)
    if found is None:
        raise KeyError(name)
    return dict(found)


def _resolved(user: User | None, path: Path) -> User | None:
    """Return the user with a token's file found where kubectl finds it: relative to the kubeconfig."""
    if user is None or user.token_file is None:
        return user
    return msgspec.structs.replace(user, token_file=str(path.absolute().parent / user.token_file))


def _proxy(url: str | None) -> str | None:
    if not url:
        return None
    scheme = urlsplit(url).scheme
    if scheme not in _PROXY_SCHEMES:
        raise CredentialError(
            f"cluster.proxy-url with {scheme or 'no'} scheme is not supported, only {' and '.join(_PROXY_SCHEMES)}: let"
            " `kubectl proxy` lead there, and name a kubeconfig with its address as the server"
        )
    return url


def _impersonation(user: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the headers by which client-go says as whom a request is meant (`rest.ImpersonationConfig`)."""
    for name, key in (("User", "as"), ("Uid", "as-uid")):
        if user.get(key):
            yield f"Impersonate-{name}", str(user[key])
    yield from (("Impersonate-Group", str(group)) for group in user.get("as-groups") or ())
    for key, values in (user.get("as-user-extra") or {}).items():
        yield from ((f"Impersonate-Extra-{quote(str(key), safe='')}", str(value)) for value in values)


def _credentials(user: dict[str, Any], cluster: dict[str, Any], path: Path) -> PluginCredentials | None:
    if not user.get("exec") or user.get("token") or user.get("tokenFile"):
        return None
    return PluginCredentials(read_plugin(user["exec"], cluster, path.absolute().parent))


def _reason(error: Exception) -> str:
    """Say what was left to Python to say: in an empty file, for example, it stumbles over None."""
    if isinstance(error, _OTHER_CONTENT):
        return "its content is no kubeconfig"
    return f"{error} is missing in it" if isinstance(error, KeyError) else str(error)


def open_api_client(
    configuration: Configuration, user_agent: str, connections: int = API_CONNECTIONS
) -> httpx2.AsyncClient:
    """Open the client for everything but watches: few connections, kept alive, 30 s for one answer."""
    # A connection that was made with a plugin's certificate stays with it; the next one may need a newer one.
    kept = 0 if configuration.credentials else connections
    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=kept)
    timeout = httpx2.Timeout(_API_SECONDS, connect=_CONNECT_SECONDS)
    return _open(configuration, user_agent, limits=limits, timeout=timeout)


def open_watch_client(configuration: Configuration, user_agent: str) -> httpx2.AsyncClient:
    """Open the client for watches: each stream holds a connection, so they get a pool of their own without a limit."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    timeout = httpx2.Timeout(_CONNECT_SECONDS, read=WATCH_READ_SECONDS)
    return _open(configuration, user_agent, limits=limits, timeout=timeout)


def _open(configuration: Configuration, user_agent: str, **options: Any) -> httpx2.AsyncClient:
    """Proxy variables of the environment are for the outside world and never apply to our own API server."""
    chosen = configuration.chosen
    user = chosen.user
    if user is None:
        raise ConfigurationError(f"context {chosen.context_name} names no user")
    try:
        context = verify_cluster(chosen.cluster, user, chosen.abs_file, trust_env=False)
        return open_client(
            base_url=chosen.cluster.server,
            verify=context,
            auth=_authentication(configuration, user, context),
            proxy=_on_the_way(configuration, context),
            headers=[("User-Agent", user_agent), *configuration.headers],
            event_hooks={"request": [partial(_expect, configuration.server_name)] if configuration.server_name else []},
            trust_env=False,
            **options,
        )
    except (*_UNREADABLE, httpx2.InvalidURL) as error:
        name = chosen.context_name
        raise ConfigurationError(f"address or credentials of context {name} cannot be used: {error}") from error


def _authentication(configuration: Configuration, user: User, context: ssl.SSLContext) -> httpx2.Auth | None:
    if configuration.credentials is None:
        return user_auth(user)
    configuration.credentials.present_in(context)
    return ExecAuth(configuration.credentials)


def _on_the_way(configuration: Configuration, context: ssl.SSLContext) -> httpx2.Proxy | None:
    """Return the proxy; one with TLS is known by the cluster's own authority, as kubectl knows it."""
    if configuration.proxy is None:
        return None
    secure = urlsplit(configuration.proxy).scheme == "https"
    return httpx2.Proxy(configuration.proxy, ssl_context=context if secure else None)


async def _expect(server_name: str, request: httpx2.Request) -> None:
    """Ask for, and insist on, a certificate of this name."""
    request.extensions = {**request.extensions, "sni_hostname": server_name}

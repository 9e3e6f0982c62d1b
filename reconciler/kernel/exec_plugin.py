"""Exec plugins of kubeconfigs: what one is asked, and what it answers (Kubernetes' `client.authentication.k8s.io`).

The rules are those of client-go, `plugin/pkg/client/auth/exec`: what kubectl takes for an answer, and what it refuses.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from lightkube.core.exceptions import ConfigError as CredentialError

_GROUP: Final = "client.authentication.k8s.io"
_VERSIONS: Final = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1", f"{_GROUP}/v1alpha1")
_INFO_VARIABLE: Final = "KUBERNETES_EXEC_INFO"
_CONFIG_EXTENSION: Final = f"{_GROUP}/exec"
_SHARED_FIELDS: Final = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")


class PluginError(CredentialError):
    """A plugin cannot be used, cannot be run, or answers nothing usable; the message says what to do about it."""


class InteractiveMode(StrEnum):
    """Whether a plugin wants to ask the person at the terminal."""

    NEVER = "Never"
    IF_AVAILABLE = "IfAvailable"
    ALWAYS = "Always"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A plugin as a user's entry describes it.

    Attributes:
        api_version: What is spoken with it.
        command: A name to look up, or a path.
        arguments: Its arguments.
        environment: Variables that it gets beyond ours.
        install_hint: What to tell a person who does not have it.
        interactive_mode: Whether it wants to ask a person.
        cluster: What it is told about the cluster; None where it does not want to know.
    """

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    install_hint: str = ""
    interactive_mode: InteractiveMode = InteractiveMode.IF_AVAILABLE
    cluster: Mapping[str, Any] | None = None

    def is_interactive(self, *, terminal: bool) -> bool:
        """Whether it is given the terminal, if there is one.

        Raises:
            PluginError: There is none, and it cannot do without.
        """
        if self.interactive_mode is InteractiveMode.ALWAYS and not terminal:
            raise PluginError(
                f"exec plugin {self.command} wants to ask a person (interactiveMode: Always), and there is no terminal:"
                " use a kubeconfig with a token that `kubectl create token` prints"
            )
        return terminal and self.interactive_mode is not InteractiveMode.NEVER

    def variables(self, *, interactive: bool) -> dict[str, str]:
        """Return the variables that it gets beyond ours."""
        spec = {"interactive": interactive} | ({"cluster": self.cluster} if self.cluster is not None else {})
        asked = {"kind": "ExecCredential", "apiVersion": self.api_version, "spec": spec}
        return {**self.environment, _INFO_VARIABLE: json.dumps(asked)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What a plugin answered.

    Attributes:
        token: A bearer token; empty if it gave none.
        certificate: A client certificate and its key, in PEM; empty if it gave none.
        expires: When another has to be asked for; None if only a refusal tells.
    """

    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    expires: dt.datetime | None = None

    def is_over(self, now: dt.datetime) -> bool:
        """Whether it is known to be of no more use."""
        return self.expires is not None and now >= self.expires


def read_plugin(entry: Mapping[str, Any], cluster: Mapping[str, Any], directory: Path) -> ExecPlugin:
    """Read a user's `exec`.

    Args:
        entry: The field's value.
        cluster: The cluster's entry, which it is told of if it wants to know.
        directory: Where the kubeconfig is: relative paths begin there.

    Raises:
        PluginError: kubectl would not use it either, or it speaks another version.
        OSError: The file of the cluster's authority cannot be read.
    """
    version = str(entry.get("apiVersion") or "")
    if version not in _VERSIONS:
        raise PluginError(f"exec.apiVersion {version!r} is none of {', '.join(_VERSIONS)}")
    command = entry.get("command")
    if not command or not isinstance(command, str):
        raise PluginError("exec.command is missing")
    mode = entry.get("interactiveMode") or InteractiveMode.IF_AVAILABLE
    if mode not in set(InteractiveMode):
        raise PluginError(f"exec.interactiveMode {mode!r} is none of {', '.join(InteractiveMode)}")
    return ExecPlugin(
        api_version=version,
        # A name is looked up in PATH; a path is relative to the file that it stands in.
        command=str(directory / command) if "/" in command else command,
        arguments=tuple(str(each) for each in entry.get("args") or ()),
        environment={str(each["name"]): str(each.get("value", "")) for each in entry.get("env") or ()},
        install_hint=str(entry.get("installHint") or ""),
        interactive_mode=InteractiveMode(mode),
        cluster=_described(cluster, directory) if entry.get("provideClusterInfo") else None,
    )


def _described(cluster: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Return a cluster's entry as a plugin reads it: with the authority itself instead of its file's name."""
    told = {name: cluster[name] for name in _SHARED_FIELDS if cluster.get(name)}
    authority = cluster.get("certificate-authority-data")
    if not authority and cluster.get("certificate-authority"):
        authority = base64.b64encode((directory / cluster["certificate-authority"]).read_bytes()).decode()
    extensions = {each.get("name"): each.get("extension") for each in cluster.get("extensions") or ()}
    known = {"certificate-authority-data": authority, "config": extensions.get(_CONFIG_EXTENSION)}
    return told | {name: value for name, value in known.items() if value}


def parse_credential(plugin: ExecPlugin, output: bytes) -> Credential:
    """Read a plugin's answer.

    Raises:
        PluginError: It is no `ExecCredential` of the version that was asked for, or holds nothing to prove who one is.
    """
    try:
        answer = json.loads(output)
        version, status = answer["apiVersion"], answer.get("status")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unusable(plugin, "is no ExecCredential") from error
    if version != plugin.api_version:
        raise _unusable(plugin, f"is of {version}, and its kubeconfig says exec.apiVersion {plugin.api_version}")
    if not isinstance(status, dict):
        raise _unusable(plugin, "has no status")
    token, certificate, key = (
        str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if bool(certificate) != bool(key):
        raise _unusable(plugin, "has only one of clientCertificateData and clientKeyData")
    if not token and not certificate:
        raise _unusable(plugin, "has neither a token nor a certificate")
    if any(character in token for character in "\r\n"):
        raise _unusable(plugin, "has a token of more than one line")
    pair = f"{certificate.rstrip()}\n{key.rstrip()}\n" if certificate else ""
    return Credential(token=token, certificate=pair, expires=_time(plugin, status.get("expirationTimestamp")))


def _time(plugin: ExecPlugin, text: Any) -> dt.datetime | None:
    if not text:
        return None
    try:
        time = dt.datetime.fromisoformat(str(text))
    except ValueError as error:
        raise _unusable(plugin, "has an expirationTimestamp that is no time") from error
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)


def _unusable(plugin: ExecPlugin, why: str) -> PluginError:
    # Never a word of the answer itself: it may hold a credential.
    return PluginError(f"the answer of exec plugin {plugin.command} {why}")

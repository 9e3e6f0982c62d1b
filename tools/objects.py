"""Reads a cluster's objects through one kept connection, by any name that kubectl takes for their kind.

Each start of kubectl costs an eighth of a second on a core. A program that looks again and again until something is
there would take that from the cluster which is to bring it about.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx2
from lightkube import KubeConfig
from lightkube.config import client_adapter
from lightkube.core.exceptions import ConfigError

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_SECONDS = 60.0


class ReadError(Exception):
    """The API server refused, or cannot be reached; the message is what it said."""


class MissingError(ReadError):
    """The API server knows nothing of that name."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object, as the API server serves it."""

    api_version: str
    kind: str
    plural: str
    is_namespaced: bool

    def path(self, namespace: str) -> str:
        """Return the path of its collection."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if self.is_namespaced else f"{root}/{self.plural}"


class ObjectReader:
    """Looks at the objects of one cluster; safe to use from several threads."""

    def __init__(self, api: httpx2.Client) -> None:
        self._api = api
        self._kinds: Mapping[str, Kind] = {}

    @classmethod
    def connect(cls, kubeconfig: Path) -> Self:
        """Read a kubeconfig; the connection is made when it is needed, and kept until the program ends.

        Raises:
            ReadError: There is no such kubeconfig.
        """
        try:
            configuration = KubeConfig.from_file(kubeconfig).get()
        except ConfigError as error:
            raise ReadError(str(error)) from None
        assert configuration is not None  # noqa: S101 - only a default we never pass makes it None
        # The machine's proxy settings are none of a loopback address's business.
        options = client_adapter.ConnectionParams(timeout=httpx2.Timeout(_SECONDS), trust_env=False)
        api = client_adapter.Client(configuration, options)
        atexit.register(api.close)
        return cls(api)

    def get(self, kind: str, name: str, namespace: str) -> dict[str, Any] | None:
        """Return one object, None when there is none."""
        try:
            return _plain(self._answer(f"{self._kind(kind).path(namespace)}/{name}").json())
        except MissingError:
            return None

    def list(self, kinds: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        """Return the objects of one kind, or of several with commas between them, that a label selector matches."""
        listed = (self._listed(self._kind(name), namespace, selector) for name in kinds.split(","))
        return [item for items in listed for item in items]

    def log(self, pod: str, namespace: str, lines: int) -> str:
        """Return the last lines of the log of a Pod's only container."""
        return self._answer(f"/api/v1/namespaces/{namespace}/pods/{pod}/log", {"tailLines": str(lines)}).text

    def _listed(self, kind: Kind, namespace: str, selector: str) -> Iterator[dict[str, Any]]:
        found = self._answer(kind.path(namespace), {"labelSelector": selector}).json()
        for item in found["items"] or ():  # which do not say of what kind they are
            yield _plain({"apiVersion": kind.api_version, "kind": kind.kind} | item)

    def _kind(self, name: str) -> Kind:
        name = name.lower()
        if name not in self._kinds:  # also when its definition is newer than what was discovered
            self._kinds = {**self._discovered("/apis"), **self._discovered("/api")}
        try:
            return self._kinds[name]
        except KeyError:
            raise ReadError(f'the server has no resource type "{name}"') from None

    def _discovered(self, root: str) -> dict[str, Kind]:
        groups = self._answer(root, accept=_DISCOVERY).json()["items"]
        return {name: kind for group in reversed(groups) for name, kind in _named_kinds(group)}

    def _answer(
        self, path: str, parameters: Mapping[str, str] | None = None, accept: str = "application/json"
    ) -> httpx2.Response:
        try:
            response = self._api.get(path, params=parameters, headers={"Accept": accept})
        except httpx2.HTTPError as error:
            raise ReadError(f"GET {path}: {type(error).__name__}: {error}") from None
        if response.is_success:
            return response
        kind = MissingError if response.status_code == httpx2.codes.NOT_FOUND else ReadError
        raise kind(f"GET {path}: {response.status_code}: {response.text}")


def _named_kinds(group: Mapping[str, Any]) -> Iterator[tuple[str, Kind]]:
    """Yield a group's kinds in the preferred version, each under every name that kubectl takes for it."""
    group_name = group["metadata"].get("name", "")
    version = group["versions"][0]
    for resource in version["resources"]:
        if "responseKind" not in resource:
            continue
        plural, singular = resource["resource"], resource["singularResource"]
        kind = Kind(
            api_version=f"{group_name}/{version['version']}".lstrip("/"),
            kind=resource["responseKind"]["kind"],
            plural=plural,
            is_namespaced=resource["scope"] == "Namespaced",
        )
        for name in (plural, singular, *resource.get("shortNames", ()), f"{plural}.{group_name}"):
            yield name, kind


def _plain(item: dict[str, Any]) -> dict[str, Any]:
    """Leave out what kubectl leaves out, too."""
    item["metadata"].pop("managedFields", None)
    return item

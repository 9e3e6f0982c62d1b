"""Names of things on the API server: resources, object keys, and the request paths they stand for.

Objects themselves are plain dicts, as the server sent them. What is read from the store is shared: treat it as frozen.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

KubernetesObject = dict[str, Any]
Trim = Callable[[KubernetesObject], KubernetesObject]
"""Makes of a freshly decoded object, which is used up, what of it is kept."""


class ObjectKey(NamedTuple):
    """Identifies one object of a known resource; `namespace` is "" for cluster-scoped objects."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource type as the API server serves it; `group` is "" for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` its objects carry."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_name(self) -> str:
        """Plural and group, as kubectl writes them: `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def collection_path(self, namespace: str | None) -> str:
        """The path of the collection in one namespace, or across all of them when `namespace` is None or empty."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            root += f"/namespaces/{_segment(namespace)}"
        return f"{root}/{self.plural}"

    def object_path(self, namespace: str | None, name: str, subresource: str | None = None) -> str:
        """The path of one object, or of its subresource.

        Raises:
            ValueError: A namespace is missing, or a name could not be a path segment.
        """
        if self.namespaced and not namespace:
            raise ValueError(f"{self.qualified_name} {name!r} needs a namespace")
        path = f"{self.collection_path(namespace)}/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path


class ImpossibleNameError(ValueError):
    """No object can have that name: the API server would refuse it."""


def object_key(obj: Mapping[str, Any]) -> ObjectKey:
    """Return the namespace and name of an object."""
    metadata = obj["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])


def object_uid(obj: Mapping[str, Any]) -> str:
    """Return the object's uid, "" when it has none."""
    uid = obj["metadata"].get("uid", "")
    return uid if isinstance(uid, str) else ""


def resource_version(obj: Mapping[str, Any]) -> str:
    """Return the object's resourceVersion, "" when it has none."""
    version = obj["metadata"].get("resourceVersion", "")
    return version if isinstance(version, str) else ""


def whole(obj: KubernetesObject) -> KubernetesObject:
    """Keep an object as it is."""
    return obj


def drop_managed_fields(obj: KubernetesObject) -> KubernetesObject:
    """Take `managedFields` out of a freshly decoded object: half its size, and nobody here reads them."""
    obj["metadata"].pop("managedFields", None)
    return obj


def _segment(name: str) -> str:
    """Quote a name for use as one path segment, refusing what the API server's own name validation refuses."""
    if name in {"", ".", ".."} or "/" in name or "%" in name:
        raise ImpossibleNameError(f"{name!r} cannot be the name of a Kubernetes object")
    return quote(name, safe="")

"""Model names and registry hosts: grammar, canonical form, place in the store (spec sections 3.4 and 4.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from .errors import InvalidModelNameError

DEFAULT_REGISTRY: Final = "ollaya.dev"
_PART: Final = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,79}")
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?|\[[0-9a-f:.]+\](:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class ModelName:
    """A fully qualified name; `registry` is the host as configured, scheme included when one was given."""

    registry: str
    namespace: str
    model: str
    tag: str

    def canonical(self, default_registry: str) -> str:
        """Return the shortest form: host and namespace appear only when they differ from the defaults."""
        short = f"{self.model}:{self.tag}"
        if self.registry != default_registry:
            return f"{self.registry}/{self.namespace}/{short}"
        return short if self.namespace == "library" else f"{self.namespace}/{short}"

    @property
    def host(self) -> str:
        """Registry host without its scheme."""
        return self.registry.removeprefix("http://").removeprefix("https://")

    @property
    def store_path(self) -> PurePosixPath:
        """Path of the manifest below ``manifests/``."""
        return PurePosixPath(self.host.replace(":", "_"), self.namespace, self.model, self.tag)

    @property
    def manifest_url(self) -> str:
        """Where the registry serves the manifest (spec section 3.1)."""
        return f"{self._repository_url}/manifests/{self.tag}"

    def blob_url(self, digest: str) -> str:
        """Where the registry serves a blob whose descriptor lists no URL."""
        return f"{self._repository_url}/blobs/{digest}"

    @property
    def _repository_url(self) -> str:
        base = self.registry if "://" in self.registry else f"https://{self.registry}"
        return f"{base}/v2/{self.namespace}/{self.model}"


def parse_model_name(text: str, default_registry: str) -> ModelName:
    """Return the name written as ``[host/][namespace/]model[:tag]``; InvalidModelNameError when it is none."""
    rest = text.strip().lower()
    scheme = next((prefix for prefix in ("http://", "https://") if rest.startswith(prefix)), "")
    path, tag = _split_tag(rest.removeprefix(scheme))
    parts = path.split("/")
    if len(parts) > 3 or (scheme and len(parts) != 3):
        raise InvalidModelNameError(f'invalid model name "{text}"')
    registry = scheme + parts[0] if len(parts) == 3 else default_registry
    namespace = parts[-2] if len(parts) > 1 else "library"
    name = ModelName(registry, namespace, parts[-1], tag)
    host_is_valid = len(parts) < 3 or _HOST.fullmatch(parts[0]) is not None
    if not host_is_valid or not all(_PART.fullmatch(part) for part in (namespace, name.model, tag)):
        raise InvalidModelNameError(f'invalid model name "{text}"')
    return name


def relative_name(target: str, router: ModelName) -> ModelName:
    """Return a router's target: of the router's registry and namespace unless it names others (spec section 3.2)."""
    name = parse_model_name(target, router.registry)
    return name if "/" in target else replace(name, namespace=router.namespace)


def name_of_store_path(path: PurePosixPath) -> ModelName:
    """Return the name a manifest path stands for; the scheme of its registry is lost on disk (spec section 4.2)."""
    host, namespace, model, tag = path.parts
    return ModelName(host.replace("_", ":"), namespace, model, tag)


def _split_tag(text: str) -> tuple[str, str]:
    head, colon, tag = text.rpartition(":")
    if not colon or "/" in tag:  # no tag, or the colon belongs to a port
        return text, "latest"
    return head, tag

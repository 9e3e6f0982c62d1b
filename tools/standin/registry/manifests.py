"""Manifests and the blobs they name, as values (spec section 3.2).

Equal arguments give equal bytes, hence equal digests.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.standin.registry.content import Content, Held, sha256_hex

PREFIX = "application/vnd.ollaya."
CONFIG_TYPE = f"{PREFIX}config.v1+json"
MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
HUGGING_FACE = "https://huggingface.co"


@dataclass(frozen=True, slots=True)
class Origins:
    """Where the absolute addresses inside the manifests point; both without a trailing slash."""

    registry: str
    """Base of the derived files, as `http://registry.example:8080`."""
    weights: str = HUGGING_FACE
    """Base of weights and tokenizers; clients replace the default by their `OLLAYA_HF_ENDPOINT`."""


@dataclass(frozen=True, slots=True)
class Blob:
    """One file of a model: what is promised (digest and size of `content`) and what is served."""

    media_type: str
    content: Content
    annotations: Mapping[str, str] = field(default_factory=dict)
    file: str | None = None
    """Path on the weights host; without one, the registry itself serves the blob by its digest."""
    served: Content | None = None
    """Other bytes to serve under the promised digest."""
    listed: bool = True
    """Whether the manifest says where the blob is; otherwise clients ask the registry's own blob path."""

    @property
    def digest(self) -> str:
        """The promised digest, 64 hex digits."""
        return sha256_hex(self.content)

    def url(self, origins: Origins) -> str:
        """The absolute address that the manifest names."""
        if self.file is None:
            return f"{origins.registry}/blobs/sha256-{self.digest}"
        return f"{origins.weights}{self.file}"


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository on the weights host, at a commit that is made up but always the same."""

    owner: str
    name: str

    @property
    def commit(self) -> str:
        """Forty hex digits."""
        return hashlib.sha256(f"{self.owner}/{self.name}".encode()).hexdigest()[:40]

    @property
    def source(self) -> str:
        """How a config blob names its origin."""
        return f"huggingface.co/{self.owner}/{self.name}@{self.commit}"

    def path(self, file: str) -> str:
        """Where the weights host serves one file."""
        return f"/{self.owner}/{self.name}/resolve/{self.commit}/{file}"


def json_bytes(value: Any) -> bytes:
    """JSON as the registry writes it: indented by two, no newline at the end."""
    return json.dumps(value, indent=2).encode()


def json_blob(kind: str, value: Any) -> Blob:
    """A layer of JSON that the registry serves itself."""
    return Blob(PREFIX + kind, Held(json_bytes(value)))


def text_blob(kind: str, text: str) -> Blob:
    """A layer of text that the registry serves itself."""
    return Blob(PREFIX + kind, Held(text.encode()))


def descriptor(blob: Blob, origins: Origins) -> dict[str, Any]:
    """The blob's entry in a manifest."""
    entry: dict[str, Any] = {
        "mediaType": blob.media_type,
        "digest": f"sha256:{blob.digest}",
        "size": blob.content.size,
    }
    if blob.listed:
        entry["urls"] = [blob.url(origins)]
    if blob.annotations:
        entry["annotations"] = dict(blob.annotations)
    return entry


def manifest(config: Blob, layers: Sequence[Blob], origins: Origins) -> dict[str, Any]:
    """The manifest document over a config blob and layers, in the order given."""
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": descriptor(config, origins),
        "layers": [descriptor(layer, origins) for layer in layers],
    }


def manifest_digest(data: bytes) -> str:
    """A manifest's digest, which is that of its exact bytes: 64 hex digits."""
    return hashlib.sha256(data).hexdigest()

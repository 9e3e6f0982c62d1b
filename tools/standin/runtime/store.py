"""The store on disk: manifests by name, blobs by digest (spec section 4). Reads never re-hash; presence is size."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .errors import ApiError, MalformedModelError, model_not_found
from .manifests import Descriptor, Manifest, ModelConfig, parse_config, parse_manifest
from .names import ModelName, name_of_store_path

_SMALL_BLOB_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model as it lies in the store; `digest` is the bare hex SHA-256 of the manifest file's bytes."""

    name: ModelName
    digest: str
    manifest: Manifest
    config: ModelConfig
    modified_at: float


class Store:
    """The directory ``OLLAYA_MODELS``; short names belong to `registry`."""

    def __init__(self, root: Path, registry: str) -> None:
        self.root = root
        self._registry = registry
        self._manifests = root / "manifests"
        self._blobs = root / "blobs"

    def prepare(self) -> None:
        """Make sure both directories exist; OSError when they neither exist nor can be made."""
        self._manifests.mkdir(parents=True, exist_ok=True)
        self._blobs.mkdir(parents=True, exist_ok=True)

    def read(self, name: ModelName) -> StoredModel:
        """Return the model `name`; ApiError `MODEL_NOT_FOUND` or, for unreadable bytes, `STORAGE_ERROR`."""
        path = self._manifests / name.store_path
        try:
            raw, modified_at = path.read_bytes(), path.stat().st_mtime
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise model_not_found(name.canonical(self._registry)) from None
        except OSError as error:
            raise ApiError("STORAGE_ERROR", f"reading {path}: {error.strerror}") from None
        try:
            manifest = parse_manifest(raw)
            config = parse_config(self.read_blob(manifest.config))
        except MalformedModelError as error:
            raise ApiError("STORAGE_ERROR", f"{path}: {error}") from None
        return StoredModel(name, hashlib.sha256(raw).hexdigest(), manifest, config, modified_at)

    def read_blob(self, blob: Descriptor) -> bytes:
        """Return the bytes of a small blob; ApiError `STORAGE_ERROR` when it is absent or not small."""
        path = self.blob_path(blob.digest)
        try:
            if path.stat().st_size > _SMALL_BLOB_BYTES:
                raise ApiError("STORAGE_ERROR", f"{path} is too large for a blob of type {blob.media_type}")
            return path.read_bytes()
        except OSError as error:
            raise ApiError("STORAGE_ERROR", f"reading {path}: {error.strerror}") from None

    def has(self, name: ModelName) -> bool:
        """Tell whether a manifest of that name is there."""
        return (self._manifests / name.store_path).is_file()

    def models(self) -> list[StoredModel]:
        """Return every model by name; one unreadable manifest fails the whole list (spec section 2.9)."""
        paths = sorted(path for path in self._manifests.glob("*/*/*/*") if path.is_file())
        return [self.read(name_of_store_path(_relative(path, self._manifests))) for path in paths]

    def blob_path(self, digest: str) -> Path:
        """Return where the blob ``sha256:<hex>`` lies or will lie."""
        return self._blobs / digest.replace(":", "-")

    def holds(self, blob: Descriptor) -> bool:
        """Tell whether the blob is there with the right size."""
        path = self.blob_path(blob.digest)
        return path.is_file() and path.stat().st_size == blob.size

    def write_manifest(self, name: ModelName, raw: bytes) -> None:
        """Put the manifest of `name` in place in one step, over any older one."""
        path = self._manifests / name.store_path
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
        temporary.write_bytes(raw)
        temporary.replace(path)

    def copy(self, source: ModelName, destination: ModelName) -> None:
        """Give the model a second name, over any model of that name."""
        self.read(source)
        try:
            self.write_manifest(destination, (self._manifests / source.store_path).read_bytes())
        except OSError as error:
            raise ApiError("STORAGE_ERROR", f"writing a manifest: {error.strerror}") from None

    def delete(self, name: ModelName) -> None:
        """Remove the name, directories it leaves empty, and blobs no other manifest refers to."""
        model = self.read(name)
        path = self._manifests / name.store_path
        try:
            path.unlink()
            for directory in list(path.parents)[:3]:
                if any(directory.iterdir()):
                    break
                directory.rmdir()
            kept = {blob.digest for other in self.models() for blob in other.manifest.blobs}
            for digest in {blob.digest for blob in model.manifest.blobs} - kept:
                self.blob_path(digest).unlink(missing_ok=True)
        except OSError as error:
            raise ApiError("STORAGE_ERROR", f"deleting {path}: {error.strerror}") from None


def details(model: StoredModel | None, quantization: str) -> dict[str, Any]:
    """Return the `details` object of spec section 2.5; texts are empty when the name has left the store."""
    config = model.config if model else None
    return {
        "parent_model": "",
        "format": config.model_format if config else "",
        "family": config.family if config else "",
        "families": [config.family] if config else [],
        "parameter_size": config.parameter_size if config else "",
        "quantization_level": quantization,
    }


def _relative(path: Path, root: Path) -> PurePosixPath:
    return PurePosixPath(path.relative_to(root).as_posix())

"""Manifests and the small JSON blobs they point to: hostile bytes in, frozen values out (spec section 3.2)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from .errors import MalformedModelError

PREFIX: Final = "application/vnd.ollaya."
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_FORMATS: Final = frozenset({"onnx", "gguf", "router"})


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One blob of a model: `digest` is ``sha256:<hex>``, `size` bytes."""

    media_type: str
    digest: str
    size: int
    urls: tuple[str, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The blobs of a model in manifest order."""

    config: Descriptor
    layers: tuple[Descriptor, ...]

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """Configuration first, then every layer."""
        return (self.config, *self.layers)

    @property
    def size(self) -> int:
        """Sum of the blob sizes in bytes."""
        return sum(blob.size for blob in self.blobs)

    def layer(self, kind: str) -> Descriptor | None:
        """Return the first layer of media type `PREFIX` + `kind`."""
        return next((layer for layer in self.layers if layer.media_type == PREFIX + kind), None)

    def annotated(self, key: str) -> tuple[str, ...]:
        """Return the distinct values of the annotation ``org.ollaya.<key>`` in manifest order."""
        values = (layer.annotations.get(f"org.ollaya.{key}") for layer in self.layers)
        return tuple(dict.fromkeys(value for value in values if value))


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The configuration blob."""

    model_format: str
    family: str = ""
    parameter_size: str = ""
    context_length: int = 512
    languages: tuple[str, ...] = ()
    description: str = ""
    source: str = ""
    license: str = ""
    release_date: str = "1970-01-01"
    engine: str = ""
    layout: str = ""


@dataclass(frozen=True, slots=True)
class RouterTable:
    """Where a router sends a state: route name to model name, relative to the router's registry and namespace."""

    default: str
    routes: dict[str, str]


def parse_manifest(raw: bytes) -> Manifest:
    """Return the manifest; MalformedModelError names the first thing wrong with it."""
    document = parse_object(raw, "manifest")
    if document.get("schemaVersion") != 2:
        raise MalformedModelError(f"manifest has schemaVersion {document.get('schemaVersion')!r}, expected 2")
    layers = document.get("layers")
    if not isinstance(document.get("mediaType"), str) or not isinstance(layers, list):
        raise MalformedModelError("manifest lacks mediaType or layers")
    return Manifest(_descriptor(document.get("config")), tuple(_descriptor(layer) for layer in layers))


def parse_config(raw: bytes) -> ModelConfig:
    """Return the configuration; MalformedModelError for a value of the wrong type."""
    document = parse_object(raw, "config blob")
    known = {key: document[key] for key in ModelConfig.__dataclass_fields__ if document.get(key) is not None}
    languages = known.pop("languages", [])
    context = known.get("context_length", 512)
    strings = {key: value for key, value in known.items() if key != "context_length"}
    if not isinstance(languages, list) or not all(isinstance(text, str) for text in [*strings.values(), *languages]):
        raise MalformedModelError("config blob holds a value that is not text where text belongs")
    if type(context) is not int or not 1 <= context <= 2**24:
        raise MalformedModelError(f"config blob has context_length {context!r}")
    if "model_format" not in known:
        raise MalformedModelError("config blob lacks model_format")
    return ModelConfig(languages=tuple(languages), **known)


def parse_router(raw: bytes) -> RouterTable:
    """Return the routes of a router blob; MalformedModelError unless the default is one of them."""
    document = parse_object(raw, "router blob")
    default, routes = document.get("default"), document.get("routes")
    if document.get("strategy") != "script" or not isinstance(routes, dict) or not isinstance(default, str):
        raise MalformedModelError("router blob needs strategy script, routes and a default")
    if default not in routes or not all(isinstance(target, str) for target in routes.values()):
        raise MalformedModelError("router blob has a default or a target that is none")
    return RouterTable(default, routes)


def parse_object(raw: bytes, what: str) -> dict[str, Any]:
    """Return a JSON object; MalformedModelError calls the input `what`."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise MalformedModelError(f"{what} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise MalformedModelError(f"{what} is not a JSON object")
    return document


def is_runnable(config: ModelConfig) -> bool:
    """Tell whether this build can run the format (spec section 5.1, step 3)."""
    return config.model_format in _FORMATS


def _descriptor(value: Any) -> Descriptor:
    if not isinstance(value, dict):
        raise MalformedModelError("manifest has a descriptor that is not an object")
    digest, size, media_type = value.get("digest"), value.get("size"), value.get("mediaType")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise MalformedModelError(f"manifest has a malformed digest {digest!r}")
    if type(size) is not int or size < 0 or not isinstance(media_type, str):
        raise MalformedModelError(f"manifest has no usable size or mediaType for {digest}")
    urls, annotations = value.get("urls") or [], value.get("annotations") or {}
    if not isinstance(urls, list) or not isinstance(annotations, dict):
        raise MalformedModelError(f"manifest has malformed urls or annotations for {digest}")
    if not all(isinstance(text, str) for text in [*urls, *annotations.values()]):
        raise MalformedModelError(f"manifest has urls or annotations that are not text for {digest}")
    return Descriptor(media_type, digest, size, tuple(urls), annotations)

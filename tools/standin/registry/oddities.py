"""Manifests that a client must survive: refused, tolerated or fetched in an unusual way (spec section 10.3)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tools.standin.registry.content import Held
from tools.standin.registry.manifests import PREFIX, Blob, Origins, json_bytes, manifest
from tools.standin.registry.models import LAYA, Behaviour, Model, config_blob, onnx_model

HUGE_MANIFEST_BYTES = 8 * 1024 * 1024
"""More than any manifest needs; a client that bounds what it reads refuses it."""

_BEHAVIOUR = Behaviour()


@dataclass(frozen=True, slots=True)
class Oddity:
    """A tag with an unusual manifest, and the blobs that exist all the same."""

    name: str
    manifest: bytes
    blobs: tuple[Blob, ...] = ()


def oddities(origins: Origins) -> Iterator[Oddity]:
    """One tag for each way in which a manifest can be unusual."""
    yield _no_urls(origins)
    yield _unknown_media_type(origins)
    yield _unsupported_format(origins)
    yield _upper_case_host(origins)
    yield _edited("odd:malformed-digest", origins, _malform_digest)
    yield _edited("odd:schema-1", origins, lambda document: document.update(schemaVersion=1))
    yield _huge(origins)
    yield Oddity("odd:invalid-json", b'{"schemaVersion": 2, "layers": [')
    yield Oddity("odd:not-an-object", b"[]")


def _base(name: str) -> Model:
    return onnx_model(name, LAYA, _BEHAVIOUR)


def _published(model: Model, origins: Origins) -> Oddity:
    document = manifest(model.config, model.layers, origins)
    return Oddity(model.name, json_bytes(document), (model.config, *model.layers))


def _edited(name: str, origins: Origins, edit: Callable[[dict[str, Any]], None]) -> Oddity:
    """A well-formed manifest, changed in one place."""
    model = _base(name)
    document = manifest(model.config, model.layers, origins)
    edit(document)
    return Oddity(name, json_bytes(document), (model.config, *model.layers))


def _huge(origins: Origins) -> Oddity:
    """A well-formed manifest with much white space after it."""
    oddity = _published(_base("odd:huge"), origins)
    return replace(oddity, manifest=oddity.manifest + b" " * HUGE_MANIFEST_BYTES)


def _malform_digest(document: dict[str, Any]) -> None:
    document["layers"][0]["digest"] = "sha256:../../etc/passwd"


def _no_urls(origins: Origins) -> Oddity:
    """The first layer says nowhere to fetch it from, so that a client asks the registry's own blob path."""
    model = _base("odd:no-urls")
    graph, *rest = model.layers
    return _published(replace(model, layers=(replace(graph, listed=False), *rest)), origins)


def _unknown_media_type(origins: Origins) -> Oddity:
    model = _base("odd:unknown-media-type")
    unknown = Blob(f"{PREFIX}hologram", Held(b"a kind of layer that no release knows"))
    return _published(replace(model, layers=(*model.layers, unknown)), origins)


def _unsupported_format(origins: Origins) -> Oddity:
    name = "odd:unsupported-format"
    return _published(replace(_base(name), config=config_blob(name, LAYA, "hologram")), origins)


def _upper_case_host(origins: Origins) -> Oddity:
    """Host names are equal whatever their case (RFC 3986 section 6.2.2.1)."""
    scheme, _, host = origins.registry.partition("://")
    return _published(_base("odd:upper-case-host"), replace(origins, registry=f"{scheme}://{host.upper()}"))

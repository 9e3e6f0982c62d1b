"""Everything the stand-in registry publishes, as one value. Pure: the same origins give the same bytes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tools.standin.registry.content import Content
from tools.standin.registry.manifests import Blob, Origins, json_bytes, manifest
from tools.standin.registry.models import Model, models
from tools.standin.registry.names import TagName
from tools.standin.registry.oddities import oddities


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What is published where."""

    manifests: Mapping[TagName, bytes]
    blobs: Mapping[str, Content]
    """Content by digest (64 hex digits), for the registry's own blob paths."""
    files: Mapping[str, Content]
    """Content by path, for the weights host."""


def build_catalogue(origins: Origins) -> Catalogue:
    """Everything the stand-in publishes: well-behaved models, candidates of known quality, and broken manifests."""
    plain = list(models())
    odd = list(oddities(origins))
    blobs = [*_blobs_of(plain), *(blob for oddity in odd for blob in oddity.blobs)]
    return Catalogue(
        manifests={
            **{TagName.parse(model.name): json_bytes(manifest(model.config, model.layers, origins)) for model in plain},
            **{TagName.parse(oddity.name): oddity.manifest for oddity in odd},
        },
        blobs={blob.digest: blob.served or blob.content for blob in blobs if blob.file is None},
        files={blob.file: blob.served or blob.content for blob in blobs if blob.file is not None},
    )


def _blobs_of(published: Iterable[Model]) -> Iterator[Blob]:
    for model in published:
        yield model.config
        yield from model.layers

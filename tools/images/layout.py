"""The OCI layout into which buildah writes (image-spec, "Image Layout"): which images it holds, of which blobs."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.images.errors import LayoutError

_NAME = "org.opencontainers.image.ref.name"


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """One image in a layout.

    Attributes:
        descriptor: its entry in the layout's index.
        identity: digest of its configuration, `sha256:…`.
        layers: digests of its layers, lowest first.
    """

    descriptor: dict[str, Any]
    identity: str
    layers: tuple[str, ...]

    @property
    def blobs(self) -> Iterator[str]:
        """Digests of everything the image consists of: manifest, configuration, layers."""
        yield str(self.descriptor["digest"])
        yield self.identity
        yield from self.layers


@dataclass(frozen=True, slots=True)
class Layout:
    """A directory in the OCI image layout; absent until the first image is written."""

    directory: Path

    def find(self, name: str) -> BuiltImage | None:
        """The image of this name, None if there is none.

        Raises:
            LayoutError: the layout is damaged.
        """
        try:
            for descriptor in self._index():
                if _name_of(descriptor) == name:
                    return self._image(descriptor)
        except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
            raise LayoutError(f"{self.directory} is damaged ({error!r}): remove it and build again") from error
        return None

    def blob(self, digest: str) -> Path:
        """The file that holds a blob."""
        return self.directory / "blobs" / digest.replace(":", "/")

    def keep(self, is_kept: Callable[[str], bool]) -> int:
        """Forget the images whose names are not to be kept, and those that lost their name to a newer one.

        Returns:
            How many were forgotten; their blobs are gone where no other image needs them.
        """
        kept = [entry for entry in self._index() if (name := _name_of(entry)) is not None and is_kept(name)]
        forgotten = len(self._index()) - len(kept)
        if forgotten:
            self._write_index(kept)
            self._remove_blobs_except({digest for entry in kept for digest in self._image(entry).blobs})
        return forgotten

    def names(self) -> list[str]:
        """The names of the images, oldest first."""
        return [name for entry in self._index() if (name := _name_of(entry)) is not None]

    def _write_index(self, manifests: list[dict[str, Any]]) -> None:
        unfinished = self.directory / "index.json.part"
        unfinished.write_text(json.dumps({"schemaVersion": 2, "manifests": manifests}))
        unfinished.replace(self.directory / "index.json")

    def _remove_blobs_except(self, digests: set[str]) -> None:
        kept = {self.blob(digest) for digest in digests}
        for blob in (self.directory / "blobs" / "sha256").iterdir():
            if blob not in kept:
                blob.unlink()

    def _index(self) -> list[dict[str, Any]]:
        path = self.directory / "index.json"
        if not path.exists():
            return []
        return list(json.loads(path.read_bytes())["manifests"])

    def _image(self, descriptor: dict[str, Any]) -> BuiltImage:
        manifest = json.loads(self.blob(descriptor["digest"]).read_bytes())
        layers = tuple(layer["digest"] for layer in manifest["layers"])
        return BuiltImage(descriptor, manifest["config"]["digest"], layers)


def _name_of(descriptor: dict[str, Any]) -> str | None:
    name = descriptor.get("annotations", {}).get(_NAME)
    return None if name is None else str(name)

"""Image archives as they leave the build: OCI archives that leave out the layers of their parent's."""

import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tools.images.layout import BuiltImage, Layout


@dataclass(frozen=True, slots=True)
class Archive:
    """An image in a file.

    Attributes:
        path: an OCI archive without the layers that `parent` has: the parent has to be imported before.
        name: the image's reference; the tag is made from everything that went into the image.
        digest: digest of the image's configuration, `sha256:…`, which CRI calls its id.
        parent: the archive with the lower layers, None when this one is complete.
    """

    path: Path
    name: str
    digest: str
    parent: "Archive | None" = None

    def lineage(self) -> tuple["Archive", ...]:
        """Every archive that is needed, in the order in which they are to be imported."""
        return (*(self.parent.lineage() if self.parent else ()), self)


def write_archive(path: Path, layout: Layout, image: BuiltImage, parent: BuiltImage | None) -> None:
    """Write an image without the layers that its parent has; the file appears when it is complete."""
    inherited = set(parent.layers) if parent else set()
    blobs = [digest for digest in image.blobs if digest not in inherited]
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    with tarfile.open(unfinished, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(archive, "index.json", _index_of(image))
        for digest in dict.fromkeys(blobs):
            archive.add(layout.blob(digest), f"blobs/{digest.replace(':', '/')}", filter=_anonymous)
    unfinished.replace(path)


def _index_of(image: BuiltImage) -> bytes:
    descriptor = {key: value for key, value in image.descriptor.items() if key != "annotations"}
    return json.dumps({"schemaVersion": 2, "manifests": [descriptor]}).encode()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Equal images give equal archives: whoever builds them, and when."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member

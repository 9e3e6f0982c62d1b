"""Reading image archives: which image is inside and what it is called. Two formats, as buildah and others write them.

The archive is trusted no further than its JSON: sizes are bounded and every missing field is an `ImageError`.
"""

import json
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.cluster.errors import ImageError

_MAX_JSON_BYTES = 4 << 20
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_INDEX_TYPES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")


@dataclass(frozen=True)
class ArchivedImage:
    """The one image of an archive.

    Attributes:
        identity: digest of its configuration, which is what CRI calls the image's id.
        names: references that the archive itself gives to it.
    """

    identity: str
    names: tuple[str, ...]


def read_archive(path: Path) -> ArchivedImage:
    """Look into a docker-archive or an OCI archive (image-spec, "Image Layout") that holds a single image.

    Raises:
        ImageError: the file is neither, or holds several images.
    """
    try:
        with tarfile.open(path) as archive:
            members = {member.name.removeprefix("./"): member for member in archive if member.isfile()}
            # Some writers put both into one archive; the OCI index is the one with digests.
            if "index.json" in members:
                return _oci_image(archive, members)
            if "manifest.json" in members:
                return _docker_image(archive, members)
    except (OSError, tarfile.TarError) as error:
        raise ImageError(f"{path} cannot be read as an image archive: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ImageError(f"{path} is a damaged image archive: {error!r}") from error
    raise ImageError(f"{path} is no image archive: it has neither index.json nor manifest.json")


def canonical_reference(reference: str) -> str:
    """The name under which CRI looks a reference up: with a registry, and with a tag or a digest but never both.

    Where a digest is given the tag is dropped; where neither is, the tag is ``latest``.

    Raises:
        ImageError: the reference has no name, or a malformed digest.
    """
    name, at, digest = reference.partition("@")
    if at and _DIGEST.fullmatch(digest) is None:
        raise ImageError(f"{reference!r} has a malformed digest: expected sha256: and 64 hexadecimal digits")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, "latest"
    if not repository:
        raise ImageError(f"{reference!r} names no repository")
    full = _with_registry(repository)
    return f"{full}@{digest}" if at else f"{full}:{tag}"


def _with_registry(repository: str) -> str:
    registry, slash, _ = repository.partition("/")
    if slash and (set(registry) & set(".:") or registry == "localhost"):
        return repository
    return f"docker.io/{repository}" if slash else f"docker.io/library/{repository}"


def _oci_image(archive: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo]) -> ArchivedImage:
    descriptor = _only(_read_json(archive, members, "index.json")["manifests"])
    if descriptor.get("mediaType") in _INDEX_TYPES:
        raise ImageError("the archive holds an image for several platforms; export a single one")
    manifest = _read_json(archive, members, _blob(descriptor["digest"]))
    name = (descriptor.get("annotations") or {}).get("org.opencontainers.image.ref.name")
    return ArchivedImage(_digest(manifest["config"]["digest"]), (name,) if name else ())


def _docker_image(archive: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo]) -> ArchivedImage:
    entry = _only(_read_json(archive, members, "manifest.json"))
    # Named after its digest: `<hex>.json`, or `blobs/sha256/<hex>` in newer archives.
    identity = f"sha256:{Path(entry['Config']).name.removesuffix('.json')}"
    return ArchivedImage(_digest(identity), tuple(entry.get("RepoTags") or ()))


def _only(entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    if len(entries) != 1:
        raise ImageError(f"the archive holds {len(entries)} images; export a single one")
    return entries[0]


def _read_json(archive: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo], name: str) -> Any:
    member = members[name]
    if member.size > _MAX_JSON_BYTES:
        raise ValueError(f"{name} has {member.size} bytes")
    file = archive.extractfile(member)
    return json.loads(file.read()) if file is not None else None


def _blob(digest: str) -> str:
    return f"blobs/{_digest(digest).replace(':', '/')}"


def _digest(text: str) -> str:
    if _DIGEST.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no sha256 digest")
    return text

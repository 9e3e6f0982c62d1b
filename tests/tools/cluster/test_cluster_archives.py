"""What is read from image archives and from references, hostile ones included."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.cluster.archives import canonical_reference, read_archive
from tools.cluster.errors import ImageError
from tools.cluster.images import ImageRecord, parse_image_list
from tools.cluster.sandbox import sandbox_archive

_HEX = "f79e865fda7af45aa66617b85fe16b08688d27f83a3137a21c75d3b137d8cf39"


def _write(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def _oci(path: Path, names: list[str | None], **descriptor: Any) -> Path:
    manifest = json.dumps({"config": {"digest": f"sha256:{_HEX}"}}).encode()
    digest = hashlib.sha256(manifest).hexdigest()
    entries = [
        {"digest": f"sha256:{digest}", "annotations": {"org.opencontainers.image.ref.name": name} if name else None}
        | descriptor
        for name in names
    ]
    return _write(path, {"index.json": json.dumps({"manifests": entries}).encode(), f"blobs/sha256/{digest}": manifest})


def _docker(path: Path, entries: list[dict[str, Any]], prefix: str = "") -> Path:
    return _write(path, {f"{prefix}manifest.json": json.dumps(entries).encode()})


def test_an_oci_archive_tells_its_identity_and_name(tmp_path: Path) -> None:
    image = read_archive(_oci(tmp_path / "a.tar", ["runtime:1"]))
    assert (image.identity, image.names) == (f"sha256:{_HEX}", ("runtime:1",))


def test_an_oci_archive_may_be_nameless(tmp_path: Path) -> None:
    assert read_archive(_oci(tmp_path / "a.tar", [None])).names == ()


@pytest.mark.parametrize("config", [f"{_HEX}.json", f"blobs/sha256/{_HEX}"])
@pytest.mark.parametrize("prefix", ["", "./"])
def test_a_docker_archive_tells_its_identity_and_names(tmp_path: Path, config: str, prefix: str) -> None:
    archive = _docker(tmp_path / "a.tar", [{"Config": config, "RepoTags": ["a:1", "b:2"]}], prefix)
    image = read_archive(archive)
    assert (image.identity, image.names) == (f"sha256:{_HEX}", ("a:1", "b:2"))


def test_the_sandbox_image_is_the_same_every_time_and_readable(tmp_path: Path) -> None:
    content = sandbox_archive(b"executable", ["sleep", "sh"], "amd64")
    archive = tmp_path / "sandbox.tar"
    archive.write_bytes(content)

    assert sandbox_archive(b"executable", ["sleep", "sh"], "amd64") == content
    assert read_archive(archive).identity.startswith("sha256:")
    assert sandbox_archive(b"other", ["sleep", "sh"], "amd64") != content


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "neither index.json nor manifest.json"),
        ({"index.json": b"{"}, "damaged"),
        ({"index.json": b"[]"}, "damaged"),
        ({"index.json": b'{"manifests": []}'}, "0 images"),
        ({"index.json": b'{"manifests": [{"digest": "sha256:../../etc/passwd"}]}'}, "damaged"),
        ({"index.json": b'{"manifests": [{"digest": "sha256:' + _HEX.encode() + b'"}]}'}, "damaged"),
        ({"manifest.json": b"[{}]"}, "damaged"),
        ({"manifest.json": b'[{"Config": "latest.json"}]'}, "damaged"),
        ({"manifest.json": b"[{}, {}]"}, "2 images"),
        ({"manifest.json": b" " * (5 << 20)}, "damaged"),
    ],
)
def test_an_unusable_archive_is_refused(tmp_path: Path, files: dict[str, bytes], says: str) -> None:
    with pytest.raises(ImageError, match=says):
        read_archive(_write(tmp_path / "a.tar", files))


def test_an_image_for_several_platforms_is_refused(tmp_path: Path) -> None:
    archive = _oci(tmp_path / "a.tar", ["a:1"], mediaType="application/vnd.oci.image.index.v1+json")
    with pytest.raises(ImageError, match="several platforms"):
        read_archive(archive)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="cannot be read"):
        read_archive(tmp_path / "missing.tar")
    (tmp_path / "text").write_text("no archive at all")
    with pytest.raises(ImageError, match="cannot be read"):
        read_archive(tmp_path / "text")


@pytest.mark.parametrize(
    ("reference", "canonical"),
    [
        (f"ghcr.io/ollaya-dev/ollaya:0.12.0@sha256:{_HEX}", f"ghcr.io/ollaya-dev/ollaya@sha256:{_HEX}"),
        (f"ghcr.io/ollaya-dev/ollaya@sha256:{_HEX}", f"ghcr.io/ollaya-dev/ollaya@sha256:{_HEX}"),
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("team/app:1", "docker.io/team/app:1"),
        ("localhost/app:1", "localhost/app:1"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry:5000/app:2", "registry:5000/app:2"),
    ],
)
def test_a_reference_becomes_what_cri_looks_up(reference: str, canonical: str) -> None:
    assert canonical_reference(reference) == canonical


@pytest.mark.parametrize("reference", ["", ":1", "app@sha256:short", "app@", f"@sha256:{_HEX}"])
def test_a_malformed_reference_is_refused(reference: str) -> None:
    with pytest.raises(ImageError):
        canonical_reference(reference)


_WORD = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)


@given(
    st.sampled_from(["", "localhost/", "ghcr.io/", "registry:5000/"]),
    st.lists(_WORD, min_size=1, max_size=3),
    st.none() | _WORD,
    st.sampled_from(["", f"@sha256:{_HEX}"]),
)
def test_a_canonical_reference_stays_as_it_is(registry: str, path: list[str], tag: str | None, digest: str) -> None:
    reference = f"{registry}{'/'.join(path)}{f':{tag}' if tag else ''}{digest}"
    canonical = canonical_reference(reference)
    assert canonical_reference(canonical) == canonical
    assert canonical.endswith(digest or f":{tag or 'latest'}")


def test_the_image_list_is_read_by_column() -> None:
    listing = (
        "REF TYPE DIGEST SIZE PLATFORMS LABELS\n"
        "a:1 application/vnd.docker.distribution.manifest.v2+json sha256:11 1.9 MiB linux/amd64 -\n"
        "b:1 application/vnd.docker.distribution.manifest.v2+json sha256:22 1.9 MiB linux/amd64 "
        "io.cri-containerd.image=managed\n"
    )
    assert parse_image_list(listing) == {
        "a:1": ImageRecord("sha256:11", is_known_to_kubelet=False),
        "b:1": ImageRecord("sha256:22", is_known_to_kubelet=True),
    }

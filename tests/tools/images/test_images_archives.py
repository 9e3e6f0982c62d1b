"""From an OCI layout to archives: each holds what its parent's lacks, and two builds of the same are the same."""

import hashlib
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.images.archives import Archive, write_archive
from tools.images.errors import LayoutError
from tools.images.layout import BuiltImage, Layout


def add_blob(layout: Layout, data: bytes) -> str:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    layout.blob(digest).parent.mkdir(parents=True, exist_ok=True)
    layout.blob(digest).write_bytes(data)
    return digest


def add_image(layout: Layout, name: str, layers: Sequence[bytes]) -> BuiltImage:
    """Write an image as buildah does: blobs first, then the index."""
    config = add_blob(layout, f"configuration of {name}".encode())
    manifest = {
        "config": {"digest": config},
        "layers": [{"digest": add_blob(layout, layer)} for layer in layers],
    }
    index = layout.directory / "index.json"
    entries = json.loads(index.read_bytes())["manifests"] if index.exists() else []
    digest = add_blob(layout, json.dumps(manifest).encode())
    entries.append({"digest": digest, "annotations": {"org.opencontainers.image.ref.name": name}})
    index.write_text(json.dumps({"schemaVersion": 2, "manifests": entries}))
    built = layout.find(name)
    assert built is not None
    return built


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        files = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_an_archive_without_a_parent_holds_the_whole_image(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    image = add_image(layout, "base-1", [b"lowest", b"next"])
    write_archive(tmp_path / "base.tar", layout, image, None)
    held = members(tmp_path / "base.tar")
    assert {b"lowest", b"next", b"configuration of base-1"} <= set(held.values())
    assert json.loads(held["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(held["index.json"])["manifests"]
    assert f"blobs/{entry['digest'].replace(':', '/')}" in held


def test_an_archive_leaves_out_what_the_parents_has(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    base = add_image(layout, "base-1", [b"lowest"])
    image = add_image(layout, "reconciler-1", [b"lowest", b"code"])
    write_archive(tmp_path / "reconciler.tar", layout, image, base)
    held = set(members(tmp_path / "reconciler.tar").values())
    assert b"code" in held
    assert b"lowest" not in held


def test_equal_images_give_equal_archives(tmp_path: Path) -> None:
    written = []
    for place in ("one", "two"):
        layout = Layout(tmp_path / place)
        write_archive(tmp_path / f"{place}.tar", layout, add_image(layout, "base-1", [b"lowest"]), None)
        written.append((tmp_path / f"{place}.tar").read_bytes())
    assert written[0] == written[1]


def test_nothing_unfinished_is_left(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    image = add_image(layout, "base-1", [b"lowest"])
    layout.blob(image.layers[0]).unlink()
    with pytest.raises(FileNotFoundError):
        write_archive(tmp_path / "archives/base.tar", layout, image, None)
    assert not (tmp_path / "archives/base.tar").exists()


def test_images_are_found_by_name(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    assert layout.find("base-1") is None
    built = add_image(layout, "base-1", [b"lowest"])
    add_image(layout, "other-1", [b"other"])
    assert layout.find("base-1") == built
    assert layout.find("base-2") is None


@pytest.mark.parametrize("index", ["{", "{}", '{"manifests": [1]}', '{"manifests": null}'])
def test_a_damaged_layout_says_what_to_do(tmp_path: Path, index: str) -> None:
    (tmp_path / "index.json").write_text(index)
    with pytest.raises(LayoutError, match="remove it and build again"):
        Layout(tmp_path).find("base-1")


def test_an_archives_lineage_starts_at_the_bottom() -> None:
    base = Archive(Path("base.tar"), "base:1", "sha256:0")
    runtime = Archive(Path("runtime.tar"), "runtime:1", "sha256:1", base)
    code = Archive(Path("code.tar"), "code:1", "sha256:2", runtime)
    assert code.lineage() == (base, runtime, code)


def test_forgotten_images_leave_nothing_that_no_other_needs(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    add_image(layout, "old-1", [b"shared", b"old"])
    kept = add_image(layout, "new-1", [b"shared", b"new"])
    assert layout.keep(lambda name: name != "old-1") == 1
    assert layout.names() == ["new-1"]
    assert layout.find("new-1") == kept
    left = {path.read_bytes() for path in (layout.directory / "blobs/sha256").iterdir()}
    assert {b"shared", b"new"} <= left
    assert b"old" not in left
    assert layout.keep(lambda _name: True) == 0

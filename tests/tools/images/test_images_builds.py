"""Making images: parents first, nothing twice, one archive of each."""

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.cluster.archives import read_archive
from tools.images.archives import Archive
from tools.images.buildah import Buildah
from tools.images.builds import made, superseded
from tools.images.errors import ImageBuildError
from tools.images.layout import Layout
from tools.images.recipes import Image

KEYS = [digit * 16 for digit in "0123"]


class Builds:
    """Stands for buildah: writes images of one layer more than their parent's, and counts."""

    def __init__(self, directory: Path) -> None:
        self.archives = directory / "archives"
        self.cache = directory / "cache"
        self.built: list[str] = []
        self.lines: list[str] = []
        self.packages = "Debian 12.1"

    def image(self, name: str, key: str, parent: Image | None = None) -> Image:
        return Image(name, key, "no time", self._build(parent), parent)

    def make(self, image: Image) -> Archive:
        return made(image, self.lines.append, self.archives, self.cache)

    def _build(self, parent: Image | None) -> Callable[[Buildah, str], None]:
        def build(buildah: Buildah, reference: str) -> None:
            self.built.append(reference)
            inherited = buildah.layout.find(parent.reference) if parent else None
            layers = [
                *(inherited.layers if inherited else ()),
                _blob(buildah.layout, f"layer of {reference} from {self.packages}"),
            ]
            _write(buildah.layout, reference, layers, self.packages)

        return build


def _blob(layout: Layout, text: str) -> str:
    digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    layout.blob(digest).parent.mkdir(parents=True, exist_ok=True)
    layout.blob(digest).write_text(text)
    return digest


def _write(layout: Layout, reference: str, layers: list[str], packages: str) -> None:
    config = _blob(layout, f"configuration of {reference} from {packages}")
    manifest = _blob(layout, json.dumps({"config": {"digest": config}, "layers": [{"digest": one} for one in layers]}))
    index = layout.directory / "index.json"
    before = json.loads(index.read_bytes())["manifests"] if index.exists() else []
    annotations = {"org.opencontainers.image.ref.name": reference}
    others = [entry for entry in before if entry["annotations"] != annotations]
    index.write_text(json.dumps({"manifests": [*others, {"digest": manifest, "annotations": annotations}]}))


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builds:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return Builds(tmp_path)


def test_parents_are_built_first_and_come_along(builds: Builds) -> None:
    base = builds.image("base", KEYS[0])
    archive = builds.make(builds.image("code", KEYS[0], base))
    assert builds.built == [f"base-{KEYS[0]}", f"code-{KEYS[0]}"]
    assert archive.name == f"decisionmodel.local/code:{KEYS[0]}"
    assert archive.parent is not None
    assert all(needed.path.is_file() for needed in archive.lineage())
    assert b"layer of base" not in archive.path.read_bytes()


def test_nothing_is_built_twice(builds: Builds) -> None:
    base = builds.image("base", KEYS[0])
    first = builds.make(builds.image("code", KEYS[0], base))
    builds.lines.clear()
    assert builds.make(builds.image("code", KEYS[0], base)) == first
    assert (len(builds.built), builds.lines) == (2, [])


def test_a_changed_image_is_built_on_the_parent_that_is_there(builds: Builds) -> None:
    base = builds.image("base", KEYS[0])
    before = builds.make(builds.image("code", KEYS[0], base))
    after = builds.make(builds.image("code", KEYS[1], base))
    assert builds.built.count(base.reference) == 1
    assert after.digest != before.digest


def test_only_the_newest_archives_of_an_image_stay(builds: Builds) -> None:
    runtime = builds.make(builds.image("code-runtime", KEYS[0]))
    written = [builds.make(builds.image("code", key)).path for key in KEYS]
    assert [path.exists() for path in written] == [False, True, True, True]
    assert runtime.path.exists()


def test_a_lost_archive_is_written_again_without_a_build(builds: Builds) -> None:
    image = builds.image("base", KEYS[0])
    builds.make(image).path.unlink()
    assert builds.make(image).path.exists()
    assert len(builds.built) == 1


def _layers(builds: Builds, archive: Archive) -> set[str]:
    built = Layout(builds.cache / "layout").find(archive.path.stem)
    return set(built.layers if built else ())


def _archived(archive: Archive) -> set[str]:
    """Digests of everything that the archives of an image hold together."""
    digests = set()
    for needed in archive.lineage():
        with tarfile.open(needed.path) as members:
            digests |= {f"sha256:{Path(name).name}" for name in members.getnames() if name.startswith("blobs/")}
    return digests


def test_an_archive_of_an_earlier_build_is_replaced(builds: Builds) -> None:
    code = builds.image("code", KEYS[0], builds.image("base", KEYS[0]))
    before = builds.make(code)
    shutil.rmtree(builds.cache)
    builds.packages = "Debian 12.2"

    after = builds.make(code)

    assert after.digest != before.digest
    for needed in after.lineage():
        assert read_archive(needed.path).identity == needed.digest
    assert _layers(builds, after) <= _archived(after)


def test_an_image_on_an_earlier_build_of_its_parent_is_built_anew(builds: Builds) -> None:
    code = builds.image("code", KEYS[0], builds.image("base", KEYS[0]))
    builds.make(code)
    for key in KEYS[1:]:
        builds.make(builds.image("base", key))
    builds.packages = "Debian 12.2"

    after = builds.make(code)

    assert builds.built.count(code.reference) == 2
    assert _layers(builds, after) <= _archived(after)


def test_a_damaged_archive_is_written_again(builds: Builds) -> None:
    image = builds.image("base", KEYS[0])
    archive = builds.make(image)
    whole = archive.path.read_bytes()
    archive.path.write_bytes(b"half")

    assert builds.make(image) == archive
    assert archive.path.read_bytes() == whole


def test_what_killed_builds_left_is_removed(builds: Builds) -> None:
    leftovers = [builds.cache / "base-abcdefgh" / "rootfs.tar", builds.cache / "programs-abcdefgh" / "pulumi"]
    for leftover in leftovers:
        leftover.parent.mkdir(parents=True)
        leftover.touch()

    builds.make(builds.image("base", KEYS[0]))

    assert [path.name for path in builds.cache.iterdir()] == ["layout"]


def test_every_step_is_told_with_its_duration(builds: Builds) -> None:
    builds.make(builds.image("base", KEYS[0]))
    announced, finished, *_ = builds.lines
    assert announced == "base: building, no time"
    assert finished.endswith(" s")


def test_a_build_that_writes_nothing_is_an_error(builds: Builds) -> None:
    with pytest.raises(ImageBuildError, match="wrote no"):
        builds.make(Image("base", KEYS[0], "", lambda _buildah, _reference: None))


def test_only_root_can_build(builds: Builds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ImageBuildError, match="as root"):
        builds.make(builds.image("base", KEYS[0]))


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        ([], set()),
        (["code-1", "code-2", "code-3"], set()),
        (["code-1", "code-runtime-1", "code-2", "code-3", "code-4"], {"code-1"}),
        (["code-1", "code-2", "code-3", "code-4", "code-5"], {"code-1", "code-2"}),
    ],
)
def test_the_newest_builds_of_an_image_are_kept(references: list[str], expected: set[str]) -> None:
    assert superseded("code", references) == expected

"""Building images and handing them out as archives; whatever is there already is not made again."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.cluster.archives import read_archive
from tools.cluster.errors import ImageError
from tools.images.archives import Archive, write_archive
from tools.images.buildah import Buildah
from tools.images.errors import ImageBuildError
from tools.images.layout import BuiltImage
from tools.images.recipes import (
    ROOT,
    Image,
    Programs,
    base_image,
    reconciler_image,
    remove_leftovers,
    runtime_image,
    standin_image,
)
from tools.toolchain.builds import build as build_program
from tools.toolchain.cache import cache_root, exclusive
from tools.toolchain.versions import PROGRAMS

Progress = Callable[[str], None]
"""Takes one line for people."""

ARCHIVES = ROOT / ".local" / "images"
_NAMESPACE = "decisionmodel.local"

_KEPT_BUILDS = 3
"""Of each image, in the cache and as archives: as many work trees can take turns without building anew."""


def build_base_image(progress: Progress) -> Archive:
    """The root file system that the other images stand on.

    Raises:
        ImageBuildError: a step failed.
    """
    return made(base_image(), progress)


def build_runtime_image(progress: Progress) -> Archive:
    """The stand-in for Ollaya's runtime.

    Raises:
        ImageBuildError: a step failed.
    """
    return made(standin_image("ollaya", base_image()), progress)


def build_registry_image(progress: Progress) -> Archive:
    """The stand-in for the model registry.

    Raises:
        ImageBuildError: a step failed.
    """
    return made(standin_image("registry", base_image()), progress)


def build_reconciler_image(progress: Progress) -> Archive:
    """The reconciler.

    Raises:
        ImageBuildError: a step failed.
        ToolchainError: the Pulumi engine or its provider is not built and cannot be.
    """
    provider = PROGRAMS["kubernetes-provider"]
    programs = Programs(build_program("pulumi"), build_program(provider.name), provider.version)
    return made(reconciler_image(runtime_image(base_image(), programs)), progress)


def made(image: Image, progress: Progress, archives: Path = ARCHIVES, cache: Path | None = None) -> Archive:
    """An image as an archive, with everything below it: found, or built now.

    Args:
        image: what to make.
        progress: told of every step that takes time.
        archives: where archives are kept; of each image the newest few.
        cache: where buildah keeps what it built, shared by the user's work trees.

    Raises:
        ImageBuildError: a step failed.
    """
    if os.geteuid() != 0:
        raise ImageBuildError("images are built as root: mmdebstrap and buildah make files of several users")
    directory = cache or cache_root().with_name("images")
    with exclusive(directory):
        directory.mkdir(exist_ok=True)
        remove_leftovers(directory)
        return _archive_of(image, Buildah(directory), archives, progress)


def _archive_of(image: Image, buildah: Buildah, archives: Path, progress: Progress) -> Archive:
    parent = _archive_of(image.parent, buildah, archives, progress) if image.parent else None
    below = buildah.layout.find(image.parent.reference) if image.parent else None
    built = _built(image, buildah, below, progress)
    path = archives / f"{image.reference}.tar"
    if not _holds(path, built):
        with _timed(f"{image.name}: writing the archive", progress):
            write_archive(path, buildah.layout, built, below)
        _remove_superseded(image, archives)
    return Archive(path, f"{_NAMESPACE}/{image.name}:{image.key}", built.identity, parent)


def _built(image: Image, buildah: Buildah, below: BuiltImage | None, progress: Progress) -> BuiltImage:
    found = buildah.layout.find(image.reference)
    if found is not None and _stands_on(found, below):
        return found
    with _timed(f"{image.name}: building, {image.usual}", progress):
        image.build(buildah, image.reference)
    built = buildah.layout.find(image.reference)
    if built is None:
        raise ImageBuildError(f"buildah reported success but wrote no {image.reference} to {buildah.layout.directory}")
    buildah.forget(superseded(image.name, buildah.layout.names()))
    return built


def superseded(name: str, references: Sequence[str]) -> frozenset[str]:
    """The builds of an image that are not worth their space any more: all but the newest few.

    Args:
        name: of the image.
        references: `<name>-<key>` of all images, oldest first.
    """
    builds = [reference for reference in references if reference.rpartition("-")[0] == name]
    return frozenset(builds[:-_KEPT_BUILDS])


def _stands_on(built: BuiltImage, below: BuiltImage | None) -> bool:
    """Equal inputs do not make equal layers for ever: a parent that was built anew may have other packages."""
    return below is None or built.layers[: len(below.layers)] == below.layers


def _holds(archive: Path, built: BuiltImage) -> bool:
    try:
        return read_archive(archive).identity == built.identity
    except ImageError:
        return False


def _remove_superseded(image: Image, archives: Path) -> None:
    """Not all but the newest: another process may be about to import the one before."""
    by_age = sorted(archives.glob(f"{image.name}-*.tar"), key=lambda path: path.stat().st_mtime_ns)
    for reference in superseded(image.name, [path.stem for path in by_age]):
        (archives / f"{reference}.tar").unlink()


@contextmanager
def _timed(step: str, progress: Progress) -> Iterator[None]:
    progress(step)
    started = time.monotonic()
    yield
    progress(f"{step.partition(':')[0]}: {time.monotonic() - started:.1f} s")

"""The images of this project: of what each is made, on what it stands, when it has to be built again."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.images.buildah import CONTAINERFILES, Buildah, Recipe
from tools.images.index_settings import build_secrets
from tools.images.keys import content_parts, key_of, program_part
from tools.images.rootfs import PACKAGES, machine_sources, machine_suite, make_rootfs

ROOT = CONTAINERFILES.parent

_BASE_CONTEXT, _PROGRAMS_CONTEXT = "base-", "programs-"
"""What the names of temporary build contexts begin with."""

_PRODUCT = ("api", "cli", "components", "dmctl", "policy", "reconciler")
_STANDINS = ("tools/__init__.py", "tools/standin", "images/ollaya.sh")


@dataclass(frozen=True, slots=True)
class Image:
    """One image, to be built or found.

    Attributes:
        name: what it is called, without its tag.
        key: made from everything that goes into it, its parent's key included; also its tag.
        usual: how long a build takes, for whoever waits.
        build: builds it into buildah's layout under the reference.
        parent: the image whose layers it starts with.
    """

    name: str
    key: str
    usual: str
    build: Callable[[Buildah, str], None]
    parent: "Image | None" = None

    @property
    def reference(self) -> str:
        """The image's name in the layout."""
        return f"{self.name}-{self.key}"


@dataclass(frozen=True, slots=True)
class Programs:
    """The executables in the reconciler's image."""

    pulumi: Path
    provider: Path
    provider_version: str
    """As in the plugin's directory: `v4.25.0`."""


def base_image() -> Image:
    """The Debian root file system as an image."""
    sources = [path.read_bytes() for path in machine_sources()]
    key = key_of([machine_suite(), *PACKAGES, *sources, *_containerfile("base")])
    return Image("base", key, "about 2 min the first time", _build_base)


def runtime_image(base: Image, programs: Programs) -> Image:
    """Everything in the reconciler's image but the product's code."""

    def build(buildah: Buildah, name: str) -> None:
        with _staged(buildah.directory, programs) as staging, build_secrets() as secrets:
            recipe = Recipe(
                "reconciler",
                ROOT,
                target="runtime",
                arguments={"BASE": buildah.stored(base.reference), "PROVIDER_VERSION": programs.provider_version},
                directories={"programs": staging},
            )
            buildah.build(recipe, name, secrets)

    parts = [program_part(programs.pulumi), program_part(programs.provider), programs.provider_version]
    inputs = [*_containerfile("reconciler"), *content_parts(ROOT, ["requirements.txt"])]
    return Image("reconciler-runtime", key_of([base.key, *parts, *inputs]), "about 1 min", build, base)


def reconciler_image(runtime: Image) -> Image:
    """The product's code on top of its runtime."""

    def build(buildah: Buildah, name: str) -> None:
        stages = {"runtime": buildah.stored(runtime.reference)}
        buildah.build(Recipe("reconciler", ROOT, images=stages), name)

    return Image("reconciler", key_of([runtime.key, *content_parts(ROOT, _PRODUCT)]), "about 1 s", build, runtime)


def standin_image(name: str, base: Image) -> Image:
    """One of the stand-ins: `ollaya`, the runtime, or `registry`."""

    def build(buildah: Buildah, reference: str) -> None:
        arguments = {"BASE": buildah.stored(base.reference)}
        buildah.build(Recipe("standin", ROOT, target=name, arguments=arguments), reference)

    key = key_of([name, base.key, *_containerfile("standin"), *content_parts(ROOT, _STANDINS)])
    return Image(name, key, "about 1 s", build, base)


def remove_leftovers(directory: Path) -> None:
    """Remove the build contexts that killed builds left in a directory where nobody builds now."""
    for prefix in (_BASE_CONTEXT, _PROGRAMS_CONTEXT):
        for context in directory.glob(f"{prefix}*"):
            shutil.rmtree(context)


def _build_base(buildah: Buildah, name: str) -> None:
    with TemporaryDirectory(dir=buildah.directory, prefix=_BASE_CONTEXT) as context:
        make_rootfs(Path(context) / "rootfs.tar")
        buildah.build(Recipe("base", Path(context), uses_ignore_file=False), name)


def _containerfile(name: str) -> list[str | bytes]:
    files = sorted(file.name for file in CONTAINERFILES.glob(f"{name}.*"))
    return content_parts(CONTAINERFILES, files)


@contextmanager
def _staged(beside: Path, programs: Programs) -> Iterator[Path]:
    """A directory with nothing but the programs, as a build context."""
    with TemporaryDirectory(dir=beside, prefix=_PROGRAMS_CONTEXT) as directory:
        for program, name in ((programs.pulumi, "pulumi"), (programs.provider, "pulumi-resource-kubernetes")):
            shutil.copy(program, Path(directory) / name)
        yield Path(directory)

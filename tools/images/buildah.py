"""buildah, as far as the builds need it: images are built into an OCI layout, and pulled from it to build on them.

Everything is kept in a storage of its own, apart from other users of buildah on the machine. Written into a layout by
`bud` itself, layers stay uncompressed (a push would gzip them, which costs more than everything else); a layer that
is there already is not written again.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.images.commands import run
from tools.images.layout import Layout

CONTAINERFILES = Path(__file__).parents[2] / "images"


# Relative to buildah's working directory: it makes the name of a pulled image from the layout's path, and not every
# path is a name.
_LAYOUT = "layout"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one image is built.

    Attributes:
        containerfile: file name below `images/`, without its suffix.
        context: the directory that COPY reads from.
        target: the stage to build, None for the last.
        arguments: build arguments.
        images: stages or contexts that are replaced by images in buildah's storage, by name.
        directories: further build contexts, by name.
        uses_ignore_file: whether the Containerfile's ignore file applies to the context.
    """

    containerfile: str
    context: Path
    target: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)
    directories: Mapping[str, Path] = field(default_factory=dict)
    uses_ignore_file: bool = True


def build_command(recipe: Recipe, reference: str, secrets: Sequence[str]) -> list[str]:
    """The arguments of `buildah` that build a recipe to a reference.

    Times are those of the epoch, so that equal inputs make equal layers.
    """
    base = CONTAINERFILES / recipe.containerfile
    ignoring = [f"--ignorefile={base.with_suffix('.containerignore')}"] if recipe.uses_ignore_file else []
    return [
        *("bud", "--quiet", "--isolation=chroot", "--pull=never", "--timestamp=0", f"--tag={reference}"),
        *(f"--file={base.with_suffix('.Containerfile')}", *ignoring),
        *([f"--target={recipe.target}"] if recipe.target else []),
        *(f"--build-arg={name}={value}" for name, value in recipe.arguments.items()),
        *(f"--build-context={name}=container-image://{image}" for name, image in recipe.images.items()),
        *(f"--build-context={name}={directory}" for name, directory in recipe.directories.items()),
        *(f"--secret={secret}" for secret in secrets),
        str(recipe.context),
    ]


@dataclass(frozen=True, slots=True)
class Buildah:
    """buildah over one storage and one layout, both below a directory that only this user writes."""

    directory: Path

    @property
    def layout(self) -> Layout:
        """Where built images are."""
        return Layout(self.directory / _LAYOUT)

    def build(self, recipe: Recipe, name: str, secrets: Sequence[str] = ()) -> None:
        """Build a recipe into the layout under a name."""
        self._run(*build_command(recipe, f"oci:{_LAYOUT}:{name}", secrets))

    def stored(self, name: str) -> str:
        """Make a built image available to build on.

        Returns:
            Its id in the storage, for `Recipe.images` and as a value of build arguments.
        """
        return self._run("pull", "--quiet", f"oci:{_LAYOUT}:{name}").strip()

    def forget(self, names: Container[str]) -> None:
        """Remove images from the layout, and what was pulled of older ones from the storage."""
        if self.layout.keep(lambda name: name not in names):
            self._run("rmi", "--prune")

    def _run(self, *arguments: str) -> str:
        storage = (f"--root={self.directory / 'storage'}", f"--runroot={self.directory / 'run'}")
        return run(["buildah", *storage, *arguments], self.directory)

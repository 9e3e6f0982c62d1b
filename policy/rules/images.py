"""Which images run: from where, which bytes, and whether they are the runtime's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from policy.navigation import Path, at, text
from policy.objects import MODELS_AND_WORKLOADS, all_containers, pods, volumes
from policy.rule import Level, Problem, Rule, Settings, Subject
from reconciler.engine.errors import InvalidRuntimeVersion
from reconciler.engine.images import REPOSITORY, RuntimeVersion, runtime_image

_DIGEST: Final = re.compile(r"@sha256:[0-9a-f]{64}\Z")
_REPOSITORY: Final = re.compile(r"[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+")
_LIBRARY: Final = "docker.io/library"


class ImageRegistries(Settings):
    """Where images may come from."""

    allowed: tuple[str, ...] = (REPOSITORY.rpartition("/")[0],)
    """Registries, or repositories below them, that images may come from; `host/team` also allows `host/team/image`."""


class CustomImages(Settings):
    """Which images may take the place of the runtime's."""

    allowed: tuple[str, ...] = ()
    """Repositories of images other than the runtime's own that may run; `host/team` also allows `host/team/image`."""


def repository_of(image: str) -> str | None:
    """Return `host/path` of an image reference, without tag and digest; None for a malformed one.

    One with a capital is malformed: in a path none is allowed, and a first part with one names a host of its own
    (`splitDockerDomain` of the reference library that runtimes use), not a folder on Docker Hub.
    """
    name = image.partition("@")[0]
    directory, slash, last = name.rpartition("/")
    name = f"{directory}{slash}{last.partition(':')[0]}"
    first, slash, _ = name.partition("/")
    if not slash:
        name = f"{_LIBRARY}/{name}"
    elif not ("." in first or ":" in first or first == "localhost"):
        name = f"docker.io/{name}"
    return name if _REPOSITORY.fullmatch(name) else None


def _within(repository: str | None, allowed: tuple[str, ...]) -> bool:
    """Whether a repository is, or is below, one of those allowed."""
    prefixes = (prefix.lower().rstrip("/") for prefix in allowed)
    return repository is not None and any(f"{repository}/".startswith(f"{prefix}/") for prefix in prefixes)


def _images(subject: Subject) -> Iterator[tuple[Path, Any]]:
    """Yield every image that the object names itself."""
    image = at(subject.object, "spec", "image")
    if image is not None:
        yield ("spec", "image"), image
    for path, fields in all_containers(subject.object):
        yield (*path, "image"), fields.get("image")
    for pod in pods(subject.object):
        # Files of such an image can be what a container reads as its model, or runs.
        for path, fields in volumes(pod):
            if fields.get("image") is not None:
                yield (*path, "image", "reference"), at(fields, "image", "reference")


def _registry_allowed(subject: Subject, settings: ImageRegistries) -> Iterator[Problem]:
    for path, image in _images(subject):
        if not _within(repository_of(text(image)), settings.allowed):
            allowed = ", ".join(settings.allowed) or "none"
            capitals = ": write it in lower case" if _has_capitals(text(image)) else ""
            yield Problem(path, f"{_quoted(image)} does not come from an allowed registry ({allowed}){capitals}")


def _has_capitals(image: str) -> bool:
    return repository_of(image) is None and repository_of(image.lower()) is not None


def _pinned(subject: Subject, _: Settings) -> Iterator[Problem]:
    for path, image in _images(subject):
        if not _DIGEST.search(text(image)):
            yield Problem(path, f"{_quoted(image)} names no digest")
    version = at(subject.object, "spec", "runtimeVersion")
    if version is not None and not _has_pinned_image(text(version)):
        yield Problem(("spec", "runtimeVersion"), f"no digest is known for the runtime {_quoted(version)}")


def _has_pinned_image(version: str) -> bool:
    try:
        return runtime_image(RuntimeVersion.parse(version), "cpu").pinned
    except InvalidRuntimeVersion:
        return False


def _own_allowed(subject: Subject, settings: CustomImages) -> Iterator[Problem]:
    for path, image in _images(subject):
        if not _within(repository_of(text(image)), (REPOSITORY, *settings.allowed)):
            yield Problem(path, f"{_quoted(image)} is not the runtime's image, and nobody allowed it")


def _quoted(value: Any) -> str:
    return repr(value[:160]) if isinstance(value, str) else "what stands there"


RULES: Final = (
    Rule(
        id="image-registry-allowed",
        why="An image runs with access to the model's keys, so its origin must be one that is trusted.",
        remedy="Take the image from an allowed registry, or have the registry added to `allowed`.",
        level=Level.MANDATORY,
        kinds=MODELS_AND_WORKLOADS,
        settings=ImageRegistries,
        examine=_registry_allowed,
    ),
    Rule(
        id="image-pinned-by-digest",
        why="A tag can be moved to other bytes, which would then run without any rollout.",
        remedy="Append the image's `@sha256:` digest, or choose a `runtimeVersion` whose digest is known.",
        level=Level.MANDATORY,
        kinds=MODELS_AND_WORKLOADS,
        examine=_pinned,
    ),
    Rule(
        id="custom-image-allowed",
        why="Another image than the runtime's makes its own claims about which model it serves.",
        remedy="Remove `spec.image` in favour of `runtimeVersion`, or have the repository added to `allowed`.",
        level=Level.MANDATORY,
        kinds=MODELS_AND_WORKLOADS,
        settings=CustomImages,
        examine=_own_allowed,
    ),
)
